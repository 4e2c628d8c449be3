import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * The loads of bench/sdk.py with the official Java client, in one JVM, which the load itself warms up before timing begins.
 *
 * java SdkLoad.java NAMESRV LOAD SECONDS TOPIC COUNT: LOAD is async (COUNT in flight), sync (COUNT threads), push (COUNT messages are stored already).
 * Prints {"messages": …, "seconds": …, "cpu": …}; cpu is that of the whole process, in seconds.
 */
final class SdkLoad {
    private static final long WARM_MESSAGES = 200_000;
    private static final long WARMUP_NS = 15_000_000_000L;

    private SdkLoad() {
    }

    interface Load {
        long run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        String load = arguments[1];
        double seconds = Double.parseDouble(arguments[2]);
        String topic = arguments[3];
        int count = Integer.parseInt(arguments[4]);
        if (load.equals("push")) {
            push(namesrv, topic, count, "warm");
            measured(() -> push(namesrv, topic, count, "timed"));
        } else {
            DefaultMQProducer producer = new DefaultMQProducer("sdk-load");
            producer.setNamesrvAddr(namesrv);
            producer.setSendMsgTimeout(30000);
            producer.start();
            Load one = load.equals("async") ? () -> async(producer, topic, count, seconds) : () -> sync(producer, topic, count, seconds);
            long warm = 0;
            for (long end = System.nanoTime() + WARMUP_NS; warm < WARM_MESSAGES && System.nanoTime() < end; ) {
                warm += one.run();
            }
            measured(one);
            producer.shutdown();
        }
        System.exit(0);
    }

    private static void measured(Load load) throws Exception {
        com.sun.management.OperatingSystemMXBean process =
            (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        long cpu = process.getProcessCpuTime();
        long begin = System.nanoTime();
        long messages = load.run();
        System.out.printf(Locale.ROOT, "{\"messages\": %d, \"seconds\": %.6f, \"cpu\": %.6f}%n", messages,
            (System.nanoTime() - begin) / 1e9, (process.getProcessCpuTime() - cpu) / 1e9);
    }

    private static byte[] body() {
        byte[] body = new byte[1024];
        Arrays.fill(body, (byte) 'x');
        return body;
    }

    private static long async(DefaultMQProducer producer, String topic, int inFlight, double seconds) throws Exception {
        byte[] body = body();
        Semaphore free = new Semaphore(inFlight);
        AtomicLong errors = new AtomicLong();
        SendCallback counting = new SendCallback() {
            public void onSuccess(SendResult result) {
                free.release();
            }

            public void onException(Throwable problem) {
                errors.incrementAndGet();
                free.release();
            }
        };
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long sent = 0;
        for (; System.nanoTime() < end; sent++) {
            free.acquire();
            producer.send(new Message(topic, "TagA", body), counting);
        }
        free.acquire(inFlight);
        return sent - errors.get();
    }

    private static long sync(DefaultMQProducer producer, String topic, int threads, double seconds) throws Exception {
        byte[] body = body();
        AtomicLong sent = new AtomicLong();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        Thread[] running = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            running[t] = new Thread(() -> {
                long own = 0;
                while (System.nanoTime() < end) {
                    try {
                        producer.send(new Message(topic, "TagA", body));
                        own++;
                    } catch (Exception problem) {
                        // not counted
                    }
                }
                sent.addAndGet(own);
            });
            running[t].start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        return sent.get();
    }

    private static long push(String namesrv, String topic, int count, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("sdk-load-" + group + System.nanoTime());
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        AtomicLong taken = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (taken.addAndGet(messages.size()) >= count) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        long all = taken.get();
        consumer.shutdown();
        return all;
    }
}
