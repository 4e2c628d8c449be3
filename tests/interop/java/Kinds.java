import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** Special kinds of messages: with properties that users cannot set, with failed consumption, in transactions. */
final class Kinds {
    private static final Map<String, Attempts> CONSUMERS = new ConcurrentHashMap<>();
    private static final Map<String, Transactions> PRODUCERS = new ConcurrentHashMap<>();

    private Kinds() {
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("send-with", Kinds::sendWith);
        commands.put("send-spread", Kinds::sendSpread);
        commands.put("attempt", Kinds::attempt);
        commands.put("attempts", arguments -> CONSUMERS.get(arguments.getString("consumer")).say());
        commands.put("await-attempts", Kinds::awaitAttempts);
        commands.put("stop-attempts", arguments -> {
            CONSUMERS.get(arguments.getString("consumer")).consumer.shutdown();
            return null;
        });
        commands.put("transact", Kinds::transact);
        commands.put("start-transactions", arguments -> transactions(arguments) != null);
        commands.put("checks", arguments -> transactions(arguments).say());
        commands.put("stop-transactions", arguments -> {
            PRODUCERS.remove(arguments.getString("group")).producer.shutdown();
            return null;
        });
    }

    /** Sends messages first..first+count-1 with the properties "set", whatever their names; returns them with their locations. */
    private static Object sendWith(JSONObject arguments) throws Exception {
        List<Object> said = new ArrayList<>();
        int first = arguments.getIntValue("first");
        for (int number = first; number < first + arguments.getIntValue("count"); number++) {
            Message message = Messages.make(arguments.getString("topic"), number, 100, null);
            set(message, arguments);
            said.add(sent(message, Producing.kept(arguments).send(message)));
        }
        return said;
    }

    /**
     * Sends "count" messages, each to be delivered at a random time: "afterMs" from now, and up to "spreadMs" later. Their keys are their numbers.
     *
     * Returns how many were acknowledged, and from when on they are due.
     */
    private static Object sendSpread(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = Producing.kept(arguments);
        long from = System.currentTimeMillis() + arguments.getLongValue("afterMs");
        Random random = new Random(arguments.getLongValue("seed"));
        Semaphore allowed = new Semaphore(256);
        AtomicInteger acknowledged = new AtomicInteger();
        int first = arguments.getIntValue("first");
        for (int number = first; number < first + arguments.getIntValue("count"); number++) {
            Message message = new Message(arguments.getString("topic"), null, String.valueOf(number), new byte[100]);
            long due = from + (long) (random.nextDouble() * arguments.getLongValue("spreadMs"));
            MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", String.valueOf(due));
            allowed.acquire();
            producer.send(message, new SendCallback() {
                public void onSuccess(SendResult result) {
                    acknowledged.incrementAndGet();
                    allowed.release();
                }

                public void onException(Throwable problem) {
                    allowed.release();
                }
            });
        }
        allowed.acquire(256);
        return Map.of("acknowledged", acknowledged.get(), "from", from);
    }

    private static void set(Message message, JSONObject arguments) {
        if (arguments.get("set") != null) {
            arguments.getJSONObject("set").forEach((name, value) -> MessageAccessor.putProperty(message, name, (String) value));
        }
    }

    private static Map<String, Object> sent(Message message, SendResult result) throws Exception {
        Map<String, Object> one = Messages.describe(message);
        one.put("msgId", result.getMsgId());
        one.put("offsetMsgId", result.getOffsetMsgId());
        one.put("queueId", result.getMessageQueue().getQueueId());
        one.put("queueOffset", result.getQueueOffset());
        one.put("status", result.getSendStatus().name());
        one.put("sentAt", System.currentTimeMillis());
        return one;
    }

    /** A consumer with its attempts: each delivery of a message with its time. */
    private static final class Attempts {
        private final List<Map<String, Object>> made = new ArrayList<>();
        private DefaultMQPushConsumer consumer;

        void add(List<MessageExt> messages) {
            long now = System.currentTimeMillis();
            synchronized (made) {
                for (MessageExt message : messages) {
                    try {
                        Map<String, Object> one = Messages.describe(message);
                        one.put("at", now);
                        made.add(one);
                    } catch (Exception problem) {
                        throw new IllegalStateException(problem);
                    }
                }
            }
        }

        List<Map<String, Object>> say() {
            synchronized (made) {
                return new ArrayList<>(made);
            }
        }
    }

    /**
     * Starts a consumer that fails on each message the first "failures" times and then succeeds.
     *
     * kind: concurrent or orderly.  level: the requested delay level (0: the broker decides, -1: dead letter).  max: maxReconsumeTimes, if given.
     */
    private static Object attempt(JSONObject arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.getString("group"));
        Interop.join(consumer, arguments);
        consumer.setInstanceName(arguments.getString("consumer"));
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPersistConsumerOffsetInterval(500);
        if (arguments.containsKey("max")) {
            consumer.setMaxReconsumeTimes(arguments.getIntValue("max"));
        }
        consumer.subscribe(arguments.getString("topic"), "*");
        int failures = arguments.getIntValue("failures");
        int level = arguments.getIntValue("level");
        Attempts attempts = new Attempts();
        attempts.consumer = consumer;
        if ("orderly".equals(arguments.getString("kind"))) {
            consumer.setSuspendCurrentQueueTimeMillis(50);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                attempts.add(messages);
                return messages.get(0).getReconsumeTimes() < failures ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                attempts.add(messages);
                context.setDelayLevelWhenNextConsume(level);
                return messages.get(0).getReconsumeTimes() < failures ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        CONSUMERS.put(arguments.getString("consumer"), attempts);
        return null;
    }

    /** Waits for "count" attempts; returns the attempts until the deadline, however many. */
    private static Object awaitAttempts(JSONObject arguments) throws Exception {
        Attempts attempts = CONSUMERS.get(arguments.getString("consumer"));
        Interop.await(arguments.getLongValue("deadlineMs"), () -> attempts.say().size() >= arguments.getIntValue("count"));
        return attempts.say();
    }

    /** A producer whose messages contain their outcome: "outcome", and "checked" for checks ("otherwise" if they do not). */
    private static final class Transactions implements TransactionListener {
        private final List<Map<String, Object>> checks = new ArrayList<>();
        private TransactionMQProducer producer;
        private String otherwise;

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return state(message.getUserProperty("outcome"));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            try {
                Map<String, Object> one = Messages.describe(message);
                one.put("at", System.currentTimeMillis());
                one.put("transactionId", message.getTransactionId());
                synchronized (checks) {
                    checks.add(one);
                }
            } catch (Exception problem) {
                throw new IllegalStateException(problem);
            }
            return state(Interop.or(message.getUserProperty("checked"), otherwise));
        }

        List<Map<String, Object>> say() {
            synchronized (checks) {
                return new ArrayList<>(checks);
            }
        }

        private static LocalTransactionState state(String word) {
            return "commit".equals(word) ? LocalTransactionState.COMMIT_MESSAGE
                : "rollback".equals(word) ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.UNKNOW;
        }
    }

    private static Transactions transactions(JSONObject arguments) throws Exception {
        String group = arguments.getString("group");
        synchronized (PRODUCERS) {
            if (!PRODUCERS.containsKey(group)) {
                Transactions made = new Transactions();
                made.otherwise = arguments.getString("otherwise");
                made.producer = new TransactionMQProducer(group);
                Interop.join(made.producer, arguments);
                made.producer.setInstanceName("transactions-" + group);
                made.producer.setVipChannelEnabled(false);
                made.producer.setSendMsgTimeout(Interop.PATIENCE_MS);
                made.producer.setTransactionListener(made);
                made.producer.start();
                // Registered at once, not a second later: the broker may check at any time, and counts failed checks.
                MQClientInstance instance = Interop.instance(made.producer);
                instance.updateTopicRouteInfoFromNameServer(made.producer.getCreateTopicKey());
                instance.sendHeartbeatToAllBrokerWithLock();
                PRODUCERS.put(group, made);
            }
            return PRODUCERS.get(group);
        }
    }

    /** Sends messages first..first+count-1 in a transaction each, with properties "outcome", "checked" and those of "set". */
    private static Object transact(JSONObject arguments) throws Exception {
        Transactions transactions = transactions(arguments);
        List<Object> said = new ArrayList<>();
        int first = arguments.getIntValue("first");
        for (int number = first; number < first + arguments.getIntValue("count"); number++) {
            Message message = Messages.make(arguments.getString("topic"), number, 100, null);
            message.putUserProperty("outcome", arguments.getString("outcome"));
            message.putUserProperty("checked", Interop.or(arguments.getString("checked"), "unknown"));
            set(message, arguments);
            said.add(sent(message, transactions.producer.sendMessageInTransaction(message, null)));
        }
        return said;
    }
}
