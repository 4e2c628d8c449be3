import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.acl.plain.PlainAccessResource;
import org.apache.rocketmq.acl.plain.RemoteAddressStrategy;
import org.apache.rocketmq.acl.plain.RemoteAddressStrategyFactory;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/** Classes of Apache's access control. */
final class Access {
    private Access() {
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("address-patterns", Access::addressPatterns);
        commands.put("signed-round", Access::signedRound);
    }

    /** For each of "cases", a pattern and hosts: "error" if it is refused, else for each host "1" or "0", whether it matches, or "!", if it fails. */
    private static Object addressPatterns(JSONObject arguments) {
        List<String> answers = new ArrayList<>();
        JSONArray cases = arguments.getJSONArray("cases");
        for (int i = 0; i < cases.size(); i++) {
            JSONArray one = cases.getJSONArray(i);
            answers.add(matches(one.getString(0), one.getJSONArray(1)));
        }
        return answers;
    }

    /** Sends "count" messages to a topic and receives them, with requests that the client's own hook signs. How many were received. */
    private static Object signedRound(JSONObject arguments) throws Exception {
        int count = arguments.getIntValue("count");
        String topic = arguments.getString("topic");
        RPCHook hook = new AclClientRPCHook(new SessionCredentials(arguments.getString("accessKey"), arguments.getString("secretKey")));
        Set<String> received = ConcurrentHashMap.newKeySet();
        DefaultMQProducer producer = new DefaultMQProducer("producers-" + topic, hook);
        producer.setInstanceName(Interop.named("signed-producer-" + arguments.getString("accessKey")));
        Interop.connect(producer, arguments);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            for (int i = 0; i < count; i++) {
                send(producer, new Message(topic, ("body " + i).getBytes(StandardCharsets.UTF_8)));
            }
            DefaultMQPushConsumer consumer =
                new DefaultMQPushConsumer(arguments.getString("group"), hook, new AllocateMessageQueueAveragely());
            consumer.setInstanceName(Interop.named("signed-consumer-" + arguments.getString("accessKey")));
            Interop.join(consumer, arguments);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(message -> received.add(message.getMsgId()));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            try {
                Interop.await(arguments.getLongValue("deadlineMs"), () -> received.size() >= count);
            } finally {
                consumer.shutdown();
            }
        } finally {
            producer.shutdown();
        }
        return received.size();
    }

    /** Sends; the exception of a refusal has the broker's remark. */
    private static void send(DefaultMQProducer producer, Message message) throws Exception {
        try {
            producer.send(message, Interop.PATIENCE_MS);
        } catch (MQClientException problem) {
            throw problem.getCause() instanceof Exception ? (Exception) problem.getCause() : problem;
        }
    }

    private static String matches(String pattern, JSONArray hosts) {
        RemoteAddressStrategy strategy;
        try {
            strategy = new RemoteAddressStrategyFactory().getRemoteAddressStrategy(pattern);
        } catch (RuntimeException problem) {
            return "error";
        }
        StringBuilder answer = new StringBuilder();
        for (int i = 0; i < hosts.size(); i++) {
            PlainAccessResource peer = new PlainAccessResource();
            peer.setWhiteRemoteAddress(hosts.getString(i));
            try {
                answer.append(strategy.match(peer) ? '1' : '0');
            } catch (RuntimeException problem) {
                answer.append('!');
            }
        }
        return answer.toString();
    }
}
