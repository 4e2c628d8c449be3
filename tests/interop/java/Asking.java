import com.alibaba.fastjson.JSONObject;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Topics, offsets, queries and hand-written requests: everything except sending and receiving. */
final class Asking {
    private static final Map<String, DefaultMQAdminExt> ADMINS = new ConcurrentHashMap<>();
    private static final NettyRemotingClient REMOTING = new NettyRemotingClient(new NettyClientConfig());
    private static boolean started;

    private Asking() {
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("create-topic", Asking::createTopic);
        commands.put("delete-topic", Asking::deleteTopic);
        commands.put("query-key", Asking::queryKey);
        commands.put("view", Asking::view);
        commands.put("await-route", Asking::awaitRoute);
        commands.put("offsets", Asking::offsets);
        commands.put("consumed", Asking::consumed);
        commands.put("search-offset", Asking::searchOffset);
        commands.put("raw", Asking::raw);
    }

    private static DefaultMQAdminExt admin(JSONObject arguments) throws Exception {
        String names = arguments.getString("namesrv");
        synchronized (ADMINS) {
            if (!ADMINS.containsKey(names)) {
                DefaultMQAdminExt admin = new DefaultMQAdminExt(Interop.PATIENCE_MS);
                Interop.connect(admin, names);
                admin.setInstanceName(Interop.named("admin-") + ADMINS.size());
                admin.start();
                Interop.instance(admin);
                ADMINS.put(names, admin);
            }
            return ADMINS.get(names);
        }
    }

    /** Waits until the name server has the topic: a client that starts earlier searches for it again only after half a minute. */
    private static Object awaitRoute(JSONObject arguments) throws Exception {
        String topic = arguments.getString("topic");
        boolean known = Interop.await(2 * Interop.PATIENCE_MS, () -> {
            try {
                return !admin(arguments).examineTopicRouteInfo(topic).getQueueDatas().isEmpty();
            } catch (MQClientException notYet) {
                return false;
            }
        });
        if (!known) {
            throw new IllegalStateException("the name server does not know topic " + topic);
        }
        return null;
    }

    /** The message with "msgId": by its offset, or, with "topic", by its unique id, once it is indexed ("deadlineMs": the maximum wait). */
    private static Object view(JSONObject arguments) throws Exception {
        String id = arguments.getString("msgId");
        if (!arguments.containsKey("topic")) {
            return Messages.describe(admin(arguments).viewMessage(id));
        }
        MessageExt[] found = new MessageExt[1];
        MQClientException[] problem = new MQClientException[1];
        boolean there = Interop.await(indexed(arguments), () -> {
            try {
                found[0] = admin(arguments).viewMessage(arguments.getString("topic"), id);
                return true;
            } catch (MQClientException nothing) {
                problem[0] = nothing;
                return false;
            }
        });
        if (!there) {
            throw problem[0];
        }
        return Messages.describe(found[0]);
    }

    /** The maximum wait for the index, which a broker writes after it has acknowledged a message. */
    private static long indexed(JSONObject arguments) {
        return arguments.containsKey("deadlineMs") ? arguments.getLongValue("deadlineMs") : 2 * Interop.PATIENCE_MS;
    }

    /** Creates a topic at "broker" and waits until clients can find its queues. */
    private static Object createTopic(JSONObject arguments) throws Exception {
        String topic = arguments.getString("topic");
        int queues = arguments.getIntValue("queues");
        TopicConfig config = new TopicConfig(topic, queues, queues, 6);
        admin(arguments).createAndUpdateTopicConfig(arguments.getString("broker"), config);
        boolean known = Interop.await(2 * Interop.PATIENCE_MS, () -> {
            try {
                return admin(arguments).examineTopicRouteInfo(topic).getQueueDatas().stream().mapToInt(one -> one.getReadQueueNums()).sum() == queues;
            } catch (MQClientException notYet) {
                return false;
            }
        });
        if (!known) {
            throw new IllegalStateException("the name server does not know topic " + topic);
        }
        return null;
    }

    private static Object deleteTopic(JSONObject arguments) throws Exception {
        String topic = arguments.getString("topic");
        admin(arguments).deleteTopicInBroker(java.util.Set.of(arguments.getString("broker")), topic);
        admin(arguments).deleteTopicInNameServer(java.util.Set.of(arguments.getString("namesrv").split(";")), topic, "DefaultCluster");
        return null;
    }

    /** Messages with a key from all brokers of the topic, once "count" of them are indexed. */
    private static Object queryKey(JSONObject arguments) throws Exception {
        int count = arguments.containsKey("count") ? arguments.getIntValue("count") : 1;
        QueryResult[] found = new QueryResult[1];
        Exception[] problem = new Exception[1];
        boolean there = Interop.await(indexed(arguments), () -> {
            try {
                found[0] = admin(arguments).queryMessage(arguments.getString("topic"), arguments.getString("key"), arguments.getIntValue("max"),
                    arguments.getLongValue("begin"), arguments.containsKey("end") ? arguments.getLongValue("end") : Long.MAX_VALUE);
                return found[0].getMessageList().size() >= count;
            } catch (MQClientException nothing) {
                problem[0] = nothing;
                return false;
            }
        });
        if (!there && found[0] == null) {
            throw problem[0];
        }
        return Messages.describe(found[0].getMessageList());
    }

    /** For each queue of a topic: minimum and maximum offset, and the time of its earliest message. */
    private static Object offsets(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = Consuming.puller(arguments);
        Map<String, Object> said = new LinkedHashMap<>();
        for (MessageQueue queue : new java.util.TreeSet<>(consumer.fetchSubscribeMessageQueues(arguments.getString("topic")))) {
            said.put(String.valueOf(queue.getQueueId()),
                Map.of("min", consumer.minOffset(queue), "max", consumer.maxOffset(queue), "earliest", consumer.earliestMsgStoreTime(queue)));
        }
        return said;
    }

    private static Object searchOffset(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = Consuming.puller(arguments);
        return consumer.searchOffset(Consuming.queue(consumer, arguments), arguments.getLongValue("timestamp"));
    }

    /** The group's committed offset in each queue of a topic; -1 if there is none. */
    private static Map<String, Object> consumed(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = Consuming.puller(new JSONObject(Map.of("namesrv", arguments.getString("namesrv"))));
        Map<String, Object> said = new LinkedHashMap<>();
        for (MessageQueue queue : new java.util.TreeSet<>(consumer.fetchSubscribeMessageQueues(arguments.getString("topic")))) {
            RemotingCommand answer = request(arguments.getString("broker"), 14, Map.of("consumerGroup", arguments.getString("group"),
                "topic", queue.getTopic(), "queueId", String.valueOf(queue.getQueueId())), null, Interop.PATIENCE_MS);
            said.put(String.valueOf(queue.getQueueId()), answer.getCode() == 0 ? Long.parseLong(answer.getExtFields().get("offset")) : -1L);
        }
        return said;
    }

    private static RemotingCommand request(String address, int code, Map<String, String> ext, byte[] body, int patienceMs) throws Exception {
        synchronized (REMOTING) {
            if (!started) {
                REMOTING.start();
                started = true;
            }
        }
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        if (ext != null) {
            request.setExtFields(new HashMap<>(ext));
        }
        request.setBody(body);
        return REMOTING.invokeSync(address, request, patienceMs);
    }

    /** Any request to any address: code, ext (strings), body (Base64), patienceMs (timeout; default: long). */
    private static Object raw(JSONObject arguments) throws Exception {
        Map<String, String> ext = new HashMap<>();
        if (arguments.get("ext") != null) {
            arguments.getJSONObject("ext").forEach((name, value) -> ext.put(name, (String) value));
        }
        String body = arguments.getString("body");
        RemotingCommand answer = request(arguments.getString("address"), arguments.getIntValue("code"), arguments.get("ext") == null ? null : ext,
            body == null ? null : Base64.getDecoder().decode(body), Interop.or(arguments.getInteger("patienceMs"), Interop.PATIENCE_MS));
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("code", answer.getCode());
        said.put("remark", answer.getRemark());
        said.put("ext", answer.getExtFields());
        said.put("body", answer.getBody() == null ? null : Base64.getEncoder().encodeToString(answer.getBody()));
        said.put("version", answer.getVersion());
        said.put("language", answer.getLanguage().name());
        return said;
    }
}
