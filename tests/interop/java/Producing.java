import com.alibaba.fastjson.JSONObject;
import java.io.BufferedWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sending: single messages in every way of the client, endlessly for kill tests, and at full speed for benchmarks. */
final class Producing {
    private static final AtomicInteger NUMBERS = new AtomicInteger();
    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, Continuous> CONTINUOUS = new ConcurrentHashMap<>();

    private Producing() {
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("send", Producing::send);
        commands.put("produce-continuously", Producing::produceContinuously);
        commands.put("producing", arguments -> CONTINUOUS.get(arguments.getString("producer")).say());
        commands.put("stop-producing", arguments -> CONTINUOUS.remove(arguments.getString("producer")).stop());
        commands.put("bench-client", Producing::bench);
        commands.put("bench-end-to-end", Producing::benchEndToEnd);
        commands.put("close-producers", arguments -> {
            PRODUCERS.values().forEach(DefaultMQProducer::shutdown);
            PRODUCERS.clear();
            return null;
        });
    }

    static DefaultMQProducer start(JSONObject arguments, String group) throws Exception {
        DefaultMQProducer producer = arguments.containsKey("trace") ? new DefaultMQProducer(group, true, traceTopic(arguments))
            : new DefaultMQProducer(group);
        Interop.connect(producer, arguments);
        producer.setInstanceName(Interop.named("producer-") + NUMBERS.incrementAndGet());
        producer.setVipChannelEnabled(arguments.getBooleanValue("vip"));
        producer.setMaxMessageSize(4 << 20);
        producer.setSendMsgTimeout(arguments.containsKey("timeoutMs") ? arguments.getIntValue("timeoutMs") : Interop.PATIENCE_MS);
        producer.setRetryTimesWhenSendFailed(arguments.containsKey("retries") ? arguments.getIntValue("retries") : 2);
        producer.setRetryAnotherBrokerWhenNotStoreOK(arguments.getBooleanValue("retryWhenNotStored"));
        producer.start();
        Interop.instance(producer);
        return producer;
    }

    /** The topic of message traces: "trace", or the system topic if that is empty. */
    static String traceTopic(JSONObject arguments) {
        return arguments.getString("trace").isEmpty() ? null : arguments.getString("trace");
    }

    /** One producer for each server and group, kept open: starting one costs more than a thousand sends. */
    static DefaultMQProducer kept(JSONObject arguments) throws Exception {
        String group = Interop.or(arguments.getString("group"), "interop-producers");
        String key = arguments.getString("namesrv") + " " + group + " " + arguments.getBooleanValue("vip") + " "
            + arguments.getString("namespace") + " " + arguments.getString("trace");
        synchronized (PRODUCERS) {
            if (!PRODUCERS.containsKey(key)) {
                PRODUCERS.put(key, start(arguments, group));
            }
            return PRODUCERS.get(key);
        }
    }

    /**
     * Sends messages first..first+count-1 of a topic; returns them and, except for one-way sends, their locations.
     *
     * mode: sync, async, oneway, batch (of "batch" messages), queue (to "queue"), selector (number modulo queues, by a selector)
     */
    private static Object send(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = kept(arguments);
        String topic = arguments.getString("topic");
        String mode = Interop.or(arguments.getString("mode"), "sync");
        int first = arguments.getIntValue("first");
        int count = arguments.getIntValue("count");
        int size = arguments.containsKey("size") ? arguments.getIntValue("size") : 100;
        List<Message> messages = new ArrayList<>();
        List<Map<String, Object>> said = new ArrayList<>();
        for (int number = first; number < first + count; number++) {
            Message message = Messages.make(topic, number, size, arguments.getString("tag"));
            if (arguments.get("properties") != null) {
                arguments.getJSONObject("properties").forEach((name, value) -> message.putUserProperty(name, (String) value));
            }
            if (arguments.containsKey("waitStoreOk")) {
                message.setWaitStoreMsgOK(arguments.getBooleanValue("waitStoreOk"));
            }
            messages.add(message);
        }
        if (mode.equals("batch")) {
            int batch = arguments.getIntValue("batch");
            for (int at = 0; at < count; at += batch) {
                List<Message> part = messages.subList(at, Math.min(count, at + batch));
                SendResult result = producer.send(new ArrayList<>(part));
                for (int i = 0; i < part.size(); i++) {
                    Map<String, Object> one = sent(part.get(i), result);
                    one.put("queueOffset", result.getQueueOffset() + i);
                    one.put("msgId", result.getMsgId().split(",")[i]);
                    one.put("offsetMsgId", result.getOffsetMsgId().split(",")[i]);
                    said.add(one);
                }
            }
        } else if (mode.equals("async")) {
            SendResult[] results = new SendResult[count];
            Throwable[] problems = new Throwable[1];
            CountDownLatch answered = new CountDownLatch(count);
            Semaphore allowed = new Semaphore(256);
            for (int i = 0; i < count; i++) {
                int at = i;
                allowed.acquire();
                producer.send(messages.get(i), new SendCallback() {
                    public void onSuccess(SendResult result) {
                        results[at] = result;
                        done();
                    }

                    public void onException(Throwable problem) {
                        problems[0] = problem;
                        done();
                    }

                    private void done() {
                        allowed.release();
                        answered.countDown();
                    }
                });
            }
            if (!answered.await(60, TimeUnit.SECONDS) || problems[0] != null) {
                throw new IllegalStateException(answered.getCount() + " asynchronous sends are not answered", problems[0]);
            }
            for (int i = 0; i < count; i++) {
                said.add(sent(messages.get(i), results[i]));
            }
        } else {
            MessageQueue queue = null;
            if (mode.equals("queue")) {
                int id = arguments.getIntValue("queue");
                queue = producer.fetchPublishMessageQueues(topic).stream().filter(one -> one.getQueueId() == id).findFirst().orElseThrow();
            }
            for (int i = 0; i < count; i++) {
                Message message = messages.get(i);
                Map<String, Object> before = Messages.describe(message);
                if (mode.equals("oneway")) {
                    producer.sendOneway(message);
                    before.put("properties", message.getProperties());
                    before.put("msgId", message.getProperty("UNIQ_KEY"));
                    said.add(before);
                } else if (mode.equals("sync")) {
                    said.add(sent(message, producer.send(message)));
                } else if (mode.equals("queue")) {
                    said.add(sent(message, producer.send(message, queue)));
                } else if (mode.equals("selector")) {
                    said.add(sent(message, producer.send(message, (queues, one, number) -> queues.get((Integer) number % queues.size()), first + i)));
                } else {
                    throw new IllegalArgumentException("no way to send " + mode);
                }
            }
        }
        return said;
    }

    private static Map<String, Object> sent(Message message, SendResult result) throws Exception {
        Map<String, Object> said = Messages.describe(message);
        said.put("status", result.getSendStatus().name());
        said.put("msgId", result.getMsgId());
        said.put("offsetMsgId", result.getOffsetMsgId());
        said.put("queueId", result.getMessageQueue().getQueueId());
        said.put("brokerName", result.getMessageQueue().getBrokerName());
        said.put("queueOffset", result.getQueueOffset());
        return said;
    }

    /** Producers that send until they are stopped, and record each acknowledgement before they continue. */
    private static final class Continuous implements SendMessageHook {
        private final AtomicBoolean going = new AtomicBoolean(true);
        private final AtomicLong tried = new AtomicLong();
        private final AtomicLong acknowledged = new AtomicLong();
        private final AtomicLong failed = new AtomicLong();
        private final Map<String, Integer> problems = new ConcurrentHashMap<>();
        private final List<Thread> threads = new ArrayList<>();
        private DefaultMQProducer producer;
        private BufferedWriter journal;

        Map<String, Object> say() {
            Map<String, Object> said = new LinkedHashMap<>();
            said.put("tried", tried.get());
            said.put("acknowledged", acknowledged.get());
            said.put("failed", failed.get());
            said.put("problems", problems);
            return said;
        }

        Object stop() throws Exception {
            going.set(false);
            for (Thread thread : threads) {
                thread.join();
            }
            producer.shutdown();
            journal.close();
            return say();
        }

        /** Whether it was acknowledged. */
        boolean send(Message message, String key) throws Exception {
            write("try", key);
            tried.incrementAndGet();
            try {
                SendResult result = producer.send(message);
                write("ack", key, result.getMsgId(), result.getOffsetMsgId(), result.getMessageQueue().getQueueId(),
                    result.getQueueOffset(), result.getSendStatus());
                acknowledged.incrementAndGet();
                return true;
            } catch (Exception problem) {
                String said = String.valueOf(problem.getMessage()).replaceAll("\\s+", " ");
                write("fail", key, problem.getClass().getSimpleName() + " " + said);
                failed.incrementAndGet();
                problems.merge(problem.getClass().getSimpleName(), 1, Integer::sum);
                return false;
            }
        }

        @Override
        public String hookName() {
            return "journal";
        }

        @Override
        public void sendMessageBefore(SendMessageContext context) {
            try {
                write("send", context.getMessage().getKeys());
            } catch (Exception problem) {
                problems.merge("journal: " + problem, 1, Integer::sum);
            }
        }

        @Override
        public void sendMessageAfter(SendMessageContext context) {
        }

        void write(String kind, String key, Object... more) throws Exception {
            StringBuilder line = new StringBuilder(kind).append('\t').append(key);
            for (Object one : more) {
                line.append('\t').append(one);
            }
            synchronized (journal) {
                journal.write(line.append('\n').toString());
                journal.flush();
            }
        }
    }

    /**
     * Sends until "stop-producing". The journal contains, tab-separated: "try key" before a send, "send key" each time the
     * client transmits it, then "ack key msgId offsetMsgId queueId queueOffset status" or "fail key problem".
     * With "again" a failed message is retried until it is acknowledged.
     */
    private static Object produceContinuously(JSONObject arguments) throws Exception {
        String topic = arguments.getString("topic");
        String prefix = Interop.or(arguments.getString("prefix"), "c");
        int size = arguments.containsKey("size") ? arguments.getIntValue("size") : 200;
        long pauseMs = arguments.getLongValue("pauseMs");
        Continuous continuous = new Continuous();
        continuous.journal = Files.newBufferedWriter(Path.of(arguments.getString("journal")), StandardCharsets.UTF_8, StandardOpenOption.CREATE,
            StandardOpenOption.APPEND);
        continuous.producer = start(arguments, "continuous-" + arguments.getString("producer"));
        continuous.producer.getDefaultMQProducerImpl().registerSendMessageHook(continuous);
        boolean again = arguments.getBooleanValue("again");
        for (int t = 0; t < Math.max(1, arguments.getIntValue("threads")); t++) {
            int number = t;
            Thread thread = new Thread(() -> {
                try {
                    for (int i = 0; continuous.going.get(); i++) {
                        String key = prefix + "-" + number + "-" + i;
                        Message message = Messages.make(topic, i, size, null);
                        message.setKeys(key);
                        int last = 50; // attempts after it was told to stop
                        for (boolean done = false; !done; ) {
                            done = continuous.send(message, key) || !again || !continuous.going.get() && last-- == 0;
                            if (!done || pauseMs > 0) {
                                Thread.sleep(Math.max(pauseMs, done ? 0 : 20));
                            }
                        }
                    }
                } catch (Exception problem) {
                    continuous.problems.merge("ended by " + problem, 1, Integer::sum);
                }
            });
            continuous.threads.add(thread);
            thread.setDaemon(true);
            thread.start();
        }
        CONTINUOUS.put(arguments.getString("producer"), continuous);
        return null;
    }

    /** Synchronous sends from "threads" threads for "seconds", after "warmup" seconds; microseconds for the latencies. */
    private static Object bench(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = start(arguments, "bench-producers");
        String topic = arguments.getString("topic");
        int threads = arguments.getIntValue("threads");
        byte[] body = new byte[arguments.getIntValue("size")];
        Arrays.fill(body, (byte) 'x');
        long begin = System.nanoTime() + (long) (arguments.getDoubleValue("warmup") * 1e9);
        long end = begin + (long) (arguments.getDoubleValue("seconds") * 1e9);
        AtomicLong errors = new AtomicLong();
        List<long[]> all = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            Thread thread = new Thread(() -> {
                long[] took = new long[1 << 16];
                int count = 0;
                for (long at = System.nanoTime(); at < end; ) {
                    try {
                        producer.send(new Message(topic, "TagA", body));
                    } catch (Exception problem) {
                        errors.incrementAndGet();
                    }
                    long now = System.nanoTime();
                    if (at >= begin) {
                        if (count == took.length) {
                            took = Arrays.copyOf(took, count * 2);
                        }
                        took[count++] = (now - at) / 1000;
                    }
                    at = now;
                }
                synchronized (all) {
                    all.add(Arrays.copyOf(took, count));
                }
            });
            running.add(thread);
            thread.start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        producer.shutdown();
        long[] sorted = all.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("messages", sorted.length);
        said.put("errors", errors.get());
        said.put("rate", sorted.length / arguments.getDoubleValue("seconds"));
        said.put("p50_us", sorted.length == 0 ? 0 : sorted[sorted.length / 2]);
        said.put("p99_us", sorted.length == 0 ? 0 : sorted[(int) (sorted.length * 0.99)]);
        return said;
    }

    /**
     * Synchronous sends from "threads" threads to a push consumer in the same JVM: for "warmup" seconds at full speed, then "rate" messages a
     * second for "seconds". Latencies of the second part, in microseconds, are from before the send to the listener.
     */
    private static Object benchEndToEnd(JSONObject arguments) throws Exception {
        double rate = arguments.getDoubleValue("rate");
        AtomicLong received = new AtomicLong();
        List<Long> took = new ArrayList<>();
        DefaultMQPushConsumer consumer = Consuming.startPlain(arguments, (messages, context) -> {
            long now = System.nanoTime();
            for (Message message : messages) {
                synchronized (took) {
                    took.add((now - ByteBuffer.wrap(message.getBody()).getLong()) / 1000);
                }
            }
            received.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = start(arguments, "bench-producers");
        AtomicLong errors = new AtomicLong();
        long sent = sendStamped(producer, arguments, arguments.getDoubleValue("warmup"), 0, errors);
        Interop.await(Interop.PATIENCE_MS, () -> received.get() >= sent);
        took.clear();
        long paced = sendStamped(producer, arguments, arguments.getDoubleValue("seconds"), rate, errors);
        Interop.await(Interop.PATIENCE_MS, () -> received.get() >= sent + paced);
        consumer.shutdown();
        producer.shutdown();
        long[] sorted = took.stream().mapToLong(Long::longValue).sorted().toArray();
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("messages", sent + paced);
        said.put("received", received.get());
        said.put("errors", errors.get());
        said.put("rate", paced / arguments.getDoubleValue("seconds"));
        said.put("p50_us", sorted.length == 0 ? 0 : sorted[sorted.length / 2]);
        said.put("p99_us", sorted.length == 0 ? 0 : sorted[(int) (sorted.length * 0.99)]);
        return said;
    }

    /** Sends messages that begin with the time before the send; returns how many were acknowledged. Rate 0: at full speed. */
    private static long sendStamped(DefaultMQProducer producer, JSONObject arguments, double seconds, double rate, AtomicLong errors) throws Exception {
        int threads = arguments.getIntValue("threads");
        long end = System.nanoTime() + (long) (seconds * 1e9);
        AtomicLong sent = new AtomicLong();
        List<Thread> running = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            long pause = rate == 0 ? 0 : (long) (threads / rate * 1e9);
            long first = System.nanoTime() + pause * t / threads;
            Thread thread = new Thread(() -> {
                byte[] body = new byte[arguments.getIntValue("size")];
                Arrays.fill(body, (byte) 'x');
                for (long at = first; System.nanoTime() < end; at += pause) {
                    LockSupport.parkNanos(at - System.nanoTime());
                    ByteBuffer.wrap(body).putLong(System.nanoTime());
                    try {
                        producer.send(new Message(arguments.getString("topic"), "TagA", body));
                        sent.incrementAndGet();
                    } catch (Exception problem) {
                        errors.incrementAndGet();
                    }
                }
            });
            running.add(thread);
            thread.start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        return sent.get();
    }
}
