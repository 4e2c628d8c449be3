import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Receiving: consumers by name, which collect messages until a test requests them. */
final class Consuming {
    private static final Map<String, Gathering> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, DefaultMQPullConsumer> PULLERS = new ConcurrentHashMap<>();
    private static final AtomicLong COUNTED = new AtomicLong();

    private Consuming() {
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("consume", Consuming::consume);
        commands.put("await", Consuming::await);
        commands.put("received", arguments -> Messages.describe(find(arguments).copy()));
        commands.put("assigned", arguments -> find(arguments).assigned());
        commands.put("await-assigned", Consuming::awaitAssigned);
        commands.put("commit", arguments -> {
            find(arguments).commit();
            return null;
        });
        commands.put("stop-consuming", arguments -> {
            find(arguments).stop(); // its received messages can still be requested
            return null;
        });
        commands.put("pull", Consuming::pull);
        commands.put("pull-held", Consuming::pullHeld);
        commands.put("dump-topic", Consuming::dumpTopic);
        commands.put("bench-consume", Consuming::benchConsume);
        commands.put("bench-consumed", arguments -> COUNTED.get());
    }

    /** A consumer and its received messages, in the order of delivery. */
    private abstract static class Gathering {
        private final List<MessageExt> received = new ArrayList<>();
        private final Set<String> places = new HashSet<>();

        void add(List<MessageExt> messages) {
            synchronized (received) {
                for (MessageExt message : messages) {
                    received.add(message);
                    places.add(message.getTopic() + " " + message.getStoreHost() + " " + message.getQueueId() + " " + message.getQueueOffset());
                }
            }
        }

        List<MessageExt> copy() {
            synchronized (received) {
                return new ArrayList<>(received);
            }
        }

        int distinct() {
            synchronized (received) {
                return places.size();
            }
        }

        abstract List<Integer> assigned() throws Exception;

        /** Commits offsets, as the client does by itself every few seconds. */
        abstract void commit() throws Exception;

        abstract void stop() throws Exception;
    }

    private static Gathering find(JSONObject arguments) {
        Gathering found = CONSUMERS.get(arguments.getString("consumer"));
        if (found == null) {
            throw new IllegalArgumentException("no consumer " + arguments.getString("consumer"));
        }
        return found;
    }

    /**
     * Starts a consumer that collects messages, from the first message on (or "from": last, or a time as yyyyMMddHHmmss).
     *
     * kind: concurrent, orderly, broadcast, lite.  tags: an expression, * by default.
     */
    private static Object consume(JSONObject arguments) throws Exception {
        String kind = arguments.getString("kind");
        CONSUMERS.put(arguments.getString("consumer"), kind.equals("lite") ? lite(arguments) : push(arguments, kind));
        return null;
    }

    private static ConsumeFromWhere from(JSONObject arguments) {
        String from = Interop.or(arguments.getString("from"), "first");
        return from.equals("last") ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
            : from.equals("first") ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_TIMESTAMP;
    }

    /** A type of expression for which the client has no method, but which it passes on unchanged. */
    private static MessageSelector byFunction(String name) throws Exception {
        Constructor<MessageSelector> constructor = MessageSelector.class.getDeclaredConstructor(String.class, String.class);
        constructor.setAccessible(true);
        return constructor.newInstance("PYTHON", name);
    }

    private static Gathering push(JSONObject arguments, String kind) throws Exception {
        String topic = arguments.getString("topic");
        DefaultMQPushConsumer consumer = arguments.containsKey("trace")
            ? new DefaultMQPushConsumer(arguments.getString("group"), true, Producing.traceTopic(arguments))
            : new DefaultMQPushConsumer(arguments.getString("group"));
        Interop.join(consumer, arguments);
        consumer.setInstanceName(arguments.getString("consumer"));
        consumer.setVipChannelEnabled(arguments.getBooleanValue("vip"));
        consumer.setConsumeFromWhere(from(arguments));
        if (from(arguments) == ConsumeFromWhere.CONSUME_FROM_TIMESTAMP) {
            consumer.setConsumeTimestamp(arguments.getString("from"));
        }
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setPullBatchSize(arguments.containsKey("pullBatch") ? arguments.getIntValue("pullBatch") : 32);
        consumer.setConsumeMessageBatchMaxSize(8);
        if (arguments.containsKey("function")) {
            consumer.subscribe(topic, byFunction(arguments.getString("function")));
        } else if (arguments.containsKey("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(arguments.getString("sql")));
        } else {
            consumer.subscribe(topic, Interop.or(arguments.getString("tags"), "*"));
        }
        Gathering gathering = new Gathering() {
            @Override
            List<Integer> assigned() {
                return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().entrySet().stream()
                    .filter(entry -> entry.getKey().getTopic().equals(topic) && !entry.getValue().isDropped())
                    .map(entry -> entry.getKey().getQueueId()).sorted().collect(Collectors.toList());
            }

            @Override
            void commit() {
                consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            }

            @Override
            void stop() {
                consumer.shutdown();
            }
        };
        if (kind.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                gathering.add(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                gathering.add(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        if (kind.equals("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        consumer.start();
        return gathering;
    }

    private static Gathering lite(JSONObject arguments) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments.getString("group"));
        Interop.join(consumer, arguments);
        consumer.setInstanceName(arguments.getString("consumer"));
        consumer.setConsumeFromWhere(from(arguments));
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setAutoCommit(false);
        consumer.subscribe(arguments.getString("topic"), Interop.or(arguments.getString("tags"), "*"));
        consumer.start();
        Thread[] polling = new Thread[1];
        boolean[] going = {true};
        Gathering gathering = new Gathering() {
            @Override
            List<Integer> assigned() throws Exception {
                return consumer.assignment().stream().map(MessageQueue::getQueueId).sorted().collect(Collectors.toList());
            }

            @Override
            void commit() throws Exception {
                consumer.commit(consumer.assignment(), true);
            }

            @Override
            void stop() throws Exception {
                going[0] = false;
                polling[0].join();
                consumer.shutdown();
            }
        };
        polling[0] = new Thread(() -> {
            while (going[0]) {
                List<MessageExt> messages = consumer.poll(100);
                gathering.add(messages);
                consumer.commitSync();
            }
        });
        polling[0].setDaemon(true);
        polling[0].start();
        return gathering;
    }

    /** Waits until a consumer has "count" distinct messages; returns the numbers of distinct and of delivered messages. */
    private static Object await(JSONObject arguments) throws Exception {
        Gathering gathering = find(arguments);
        int count = arguments.getIntValue("count");
        boolean there = Interop.await(arguments.getLongValue("deadlineMs"), () -> gathering.distinct() >= count);
        return Map.of("there", there, "distinct", gathering.distinct(), "received", gathering.copy().size());
    }

    /** Waits until "count" queues of its topic are assigned to a consumer; returns them. */
    private static Object awaitAssigned(JSONObject arguments) throws Exception {
        Gathering gathering = find(arguments);
        Interop.await(arguments.getLongValue("deadlineMs"), () -> gathering.assigned().size() == arguments.getIntValue("count"));
        return gathering.assigned();
    }

    static DefaultMQPullConsumer puller(JSONObject arguments) throws Exception {
        String group = Interop.or(arguments.getString("group"), "interop-pullers");
        String key = arguments.getString("namesrv") + " " + group;
        synchronized (PULLERS) {
            if (!PULLERS.containsKey(key)) {
                DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
                Interop.connect(consumer, arguments.getString("namesrv"));
                consumer.setInstanceName(Interop.named("puller-") + PULLERS.size());
                consumer.start();
                consumer.setConsumerPullTimeoutMillis(Interop.PATIENCE_MS);
                Interop.instance(consumer);
                PULLERS.put(key, consumer);
            }
            return PULLERS.get(key);
        }
    }

    static MessageQueue queue(DefaultMQPullConsumer consumer, JSONObject arguments) throws Exception {
        int id = arguments.getIntValue("queue");
        return consumer.fetchSubscribeMessageQueues(arguments.getString("topic")).stream().filter(one -> one.getQueueId() == id).findFirst().orElseThrow();
    }

    /** One pull from a queue: status, the three offsets, messages. */
    private static Object pull(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = puller(arguments);
        return say(consumer.pull(queue(consumer, arguments), Interop.or(arguments.getString("tags"), "*"), arguments.getLongValue("offset"),
            arguments.getIntValue("max")));
    }

    /** One pull that the broker holds until a message arrives or its timeout expires. */
    private static Object pullHeld(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = puller(arguments);
        long begin = System.nanoTime();
        PullResult result = consumer.pullBlockIfNotFound(queue(consumer, arguments), Interop.or(arguments.getString("tags"), "*"),
            arguments.getLongValue("offset"), arguments.getIntValue("max"));
        Map<String, Object> said = say(result);
        said.put("tookMs", (System.nanoTime() - begin) / 1_000_000);
        return said;
    }

    private static Map<String, Object> say(PullResult result) throws Exception {
        Map<String, Object> said = new TreeMap<>();
        said.put("status", result.getPullStatus().name());
        said.put("minOffset", result.getMinOffset());
        said.put("maxOffset", result.getMaxOffset());
        said.put("nextBeginOffset", result.getNextBeginOffset());
        said.put("messages", Messages.describe(result.getMsgFoundList() == null ? List.<MessageExt>of() : result.getMsgFoundList()));
        return said;
    }

    /** Every message of a topic, queue by queue, from the lowest offset to the highest. Tags: an expression. */
    private static Object dumpTopic(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = puller(arguments);
        String tags = Interop.or(arguments.getString("tags"), "*");
        List<Object> queues = new ArrayList<>();
        for (MessageQueue queue : new java.util.TreeSet<>(consumer.fetchSubscribeMessageQueues(arguments.getString("topic")))) {
            long min = consumer.minOffset(queue);
            long max = consumer.maxOffset(queue);
            List<MessageExt> messages = new ArrayList<>();
            for (long at = min; at < max; ) {
                PullResult result = consumer.pull(queue, tags, at, 32);
                if (result.getMsgFoundList() != null) {
                    messages.addAll(result.getMsgFoundList());
                }
                if (result.getNextBeginOffset() <= at) {
                    throw new IllegalStateException("queue " + queue + " does not go on at " + at + ": " + result);
                }
                at = result.getNextBeginOffset();
            }
            queues.add(Map.of("queueId", queue.getQueueId(), "brokerName", queue.getBrokerName(), "minOffset", min, "maxOffset", max,
                "messages", Messages.describe(messages)));
        }
        return queues;
    }

    /** A push consumer with the client's defaults, in a group of its own, from the first message on. */
    static DefaultMQPushConsumer startPlain(JSONObject arguments, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(Interop.named("bench-consumers-") + System.nanoTime());
        Interop.connect(consumer, arguments);
        consumer.setInstanceName(consumer.getConsumerGroup());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments.getString("topic"), "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    /** Starts a push consumer that only counts; "bench-consumed" returns the number of messages. */
    private static Object benchConsume(JSONObject arguments) throws Exception {
        startPlain(arguments, (messages, context) -> {
            COUNTED.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return null;
    }
}
