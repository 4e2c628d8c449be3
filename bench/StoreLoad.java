import java.io.OutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Fills a broker's store with varied messages and reports what a consumer receives, for bench/export_runs.py.
 *
 * java StoreLoad.java NAMESRV send BYTES TOPICS          until this many body bytes are acknowledged; prints the number of messages
 * java StoreLoad.java NAMESRV receive TOPICS MESSAGES    a line for each queue: topic, queue, messages, first offset, last offset, sum
 *
 * The sum is, modulo 2^64, that of (CRC-32 of the body + 1) * (2 * queue offset + 1): the order of addition does not matter.
 *
 * Sends are not retried (the store would have duplicates): the first failure ends the program. Requests while receiving are
 * retried. Progress goes to standard error every ten seconds. The program always ends: with 1 on the first error, or after two
 * minutes without an acknowledgement or a message; then it prints what is missing in each queue.
 */
@SuppressWarnings("deprecation") // DefaultMQPullConsumer: the only consumer that pulls a given range of a queue
final class StoreLoad {
    private static final int THREADS = 4;
    private static final int BATCH = 32;
    private static final int PULL_TIMEOUT_MS = 30_000;
    private static final int SEND_TIMEOUT_MS = 110_000;
    private static final int SAY_MS = 10_000;
    private static final long PATIENCE_NS = 120_000_000_000L;

    /** Messages acknowledged or received. */
    private static final AtomicLong DONE = new AtomicLong();
    /** Position and end of each queue that is being received. */
    private static final Map<MessageQueue, long[]> PLACES = new ConcurrentSkipListMap<>();
    private static volatile String trouble = "nothing failed";

    private StoreLoad() {
    }

    public static void main(String[] arguments) {
        PrintStream out = System.out;
        System.setOut(new PrintStream(OutputStream.nullOutputStream())); // the client logs there
        Thread watch = new Thread(StoreLoad::watch, "watch");
        watch.setDaemon(true);
        watch.start();
        try {
            String namesrv = arguments[0];
            if (arguments[1].equals("send")) {
                send(out, namesrv, Long.parseLong(arguments[2]), Integer.parseInt(arguments[3]));
            } else {
                receive(out, namesrv, Integer.parseInt(arguments[2]), Long.parseLong(arguments[3]));
            }
        } catch (Exception | Error failure) { // threads of the pool and of the client would keep the process alive
            failure.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    /** Prints progress, and ends the program when there is none. */
    private static void watch() {
        long began = System.nanoTime();
        long moved = began;
        long before = 0;
        while (true) {
            try {
                Thread.sleep(SAY_MS);
            } catch (InterruptedException interrupted) {
                return;
            }
            long done = DONE.get();
            long now = System.nanoTime();
            System.err.printf("StoreLoad: %,d messages after %d s%n", done, (now - began) / 1_000_000_000L);
            if (done > before) {
                before = done;
                moved = now;
            } else if (now - moved > PATIENCE_NS) {
                System.err.printf("StoreLoad: nothing more for %d s; last trouble: %s%n", (now - moved) / 1_000_000_000L, trouble);
                PLACES.forEach((queue, place) -> {
                    if (place[0] < place[1]) {
                        System.err.printf("StoreLoad: %s %d: at %d, %d missing to %d%n",
                            queue.getTopic(), queue.getQueueId(), place[0], place[1] - place[0], place[1]);
                    }
                });
                Runtime.getRuntime().halt(1);
            }
        }
    }

    private static void send(PrintStream out, String namesrv, long bytes, int topics) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("StoreLoad");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setMaxMessageSize(4 << 20);
        producer.start();
        AtomicLong acknowledged = new AtomicLong();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<?>> ends = new ArrayList<>();
        for (int number = 0; number < THREADS; number++) {
            long seed = number + 1;
            ends.add(threads.submit(() -> {
                long state = seed * 0x9E3779B97F4A7C15L;
                for (long batch = 0; acknowledged.get() < bytes; batch++) {
                    List<Message> messages = new ArrayList<>(BATCH);
                    long length = 0;
                    String topic = "Store" + (batch + seed) % topics;
                    for (int each = 0; each < BATCH; each++) {
                        state = next(state);
                        byte[] body = new byte[512 + (int) ((state >>> 33) % 1024)];
                        for (int at = 0; at < body.length; at++) {
                            if (at % 2 == 0) {
                                state = next(state);
                            }
                            body[at] = (byte) ('a' + ((state >>> (at % 2 * 24 + 8)) & 15));
                        }
                        Message message = new Message(topic, "tag" + each % 3, seed + "-" + batch + "-" + each, body);
                        messages.add(message);
                        length += body.length;
                    }
                    if (producer.send(messages).getSendStatus() != SendStatus.SEND_OK) {
                        throw new IllegalStateException("not stored");
                    }
                    DONE.addAndGet(BATCH);
                    acknowledged.addAndGet(length);
                }
                return null;
            }));
        }
        for (Future<?> end : ends) {
            end.get();
        }
        out.println(DONE.get());
    }

    private static long next(long state) {
        long value = state ^ state << 13;
        value ^= value >>> 7;
        return value ^ value << 17;
    }

    private static void receive(PrintStream out, String namesrv, int topics, long messages) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("StoreLoadReceiver");
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        long found = findQueues(consumer, topics);
        while (found < messages) { // a broker indexes messages shortly after acknowledging them
            trouble = String.format("the queues hold %d of %d messages", found, messages);
            Thread.sleep(1000);
            found = findQueues(consumer, topics);
        }
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<String>> lines = new ArrayList<>();
        PLACES.forEach((queue, place) -> lines.add(threads.submit(() -> drain(consumer, queue, place))));
        for (Future<String> line : lines) {
            out.println(line.get());
        }
    }

    /** Enters all queues into PLACES and returns their number of messages. */
    private static long findQueues(DefaultMQPullConsumer consumer, int topics) throws Exception {
        long messages = 0;
        for (int number = 0; number < topics; number++) {
            String topic = "Store" + number;
            for (MessageQueue queue : patiently(() -> consumer.fetchSubscribeMessageQueues(topic))) {
                long[] place = {patiently(() -> consumer.minOffset(queue)), patiently(() -> consumer.maxOffset(queue))};
                PLACES.put(queue, place);
                messages += place[1] - place[0];
            }
        }
        return messages;
    }

    /** place: position and end of the queue; the position advances. */
    private static String drain(DefaultMQPullConsumer consumer, MessageQueue queue, long[] place) throws Exception {
        long first = -1;
        long last = -1;
        long count = 0;
        long sum = 0;
        CRC32 crc = new CRC32();
        while (place[0] < place[1]) {
            long at = place[0];
            PullResult pulled = patiently(() -> consumer.pull(queue, "*", at, BATCH, PULL_TIMEOUT_MS));
            List<MessageExt> found = pulled.getMsgFoundList();
            if (found != null) {
                for (MessageExt message : found) {
                    crc.reset();
                    crc.update(message.getBody());
                    sum += (crc.getValue() + 1) * (2 * message.getQueueOffset() + 1);
                    first = first < 0 ? message.getQueueOffset() : first;
                    last = message.getQueueOffset();
                    count++;
                }
                DONE.addAndGet(found.size());
            }
            place[0] = pulled.getNextBeginOffset();
            if (place[0] < at) {
                throw new IllegalStateException(queue + " went back from " + at + ": " + pulled);
            }
            if (place[0] == at) {
                trouble = queue + " stays: " + pulled;
                Thread.sleep(100);
            }
        }
        return String.format("%s %d %d %d %d %s", queue.getTopic(), queue.getQueueId(), count, first, last, Long.toUnsignedString(sum));
    }

    /** Repeats a request until it succeeds; the watchdog limits the time. */
    private static <T> T patiently(Callable<T> question) throws Exception {
        while (true) {
            try {
                return question.call();
            } catch (MQClientException | MQBrokerException | RemotingException failure) {
                trouble = String.valueOf(failure.getCause() == null ? failure : failure.getCause());
                System.err.println("StoreLoad: asks again after " + trouble);
                Thread.sleep(1000);
            }
        }
    }
}
