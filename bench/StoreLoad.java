import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Fills a broker's store with different messages, and says what a consumer receives of them: for bench/export_runs.py.
 *
 * java StoreLoad.java NAMESRV send BYTES TOPICS    until so many bytes of bodies are acknowledged; prints the number of messages
 * java StoreLoad.java NAMESRV receive TOPICS       a line for each queue: topic, queue, messages, first offset, last offset, sum
 *
 * The sum is, modulo 2^64, that of (CRC-32 of the body + 1) * (2 * queue offset + 1): whoever adds, in whatever order, gets the same.
 */
final class StoreLoad {
    private static final int THREADS = 4;
    private static final int BATCH = 32;

    private StoreLoad() {
    }

    public static void main(String[] arguments) throws Exception {
        String namesrv = arguments[0];
        if (arguments[1].equals("send")) {
            send(namesrv, Long.parseLong(arguments[2]), Integer.parseInt(arguments[3]));
        } else {
            receive(namesrv, Integer.parseInt(arguments[2]));
        }
        System.exit(0);
    }

    private static void send(String namesrv, long bytes, int topics) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("StoreLoad");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(30_000);
        producer.setMaxMessageSize(4 << 20);
        producer.start();
        AtomicLong sent = new AtomicLong();
        AtomicLong done = new AtomicLong();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<?>> ends = new ArrayList<>();
        for (int number = 0; number < THREADS; number++) {
            long seed = number + 1;
            ends.add(threads.submit(() -> {
                long state = seed * 0x9E3779B97F4A7C15L;
                for (long batch = 0; done.get() < bytes; batch++) {
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
                    sent.addAndGet(BATCH);
                    done.addAndGet(length);
                }
                return null;
            }));
        }
        for (Future<?> end : ends) {
            end.get();
        }
        System.out.println(sent.get());
    }

    private static long next(long state) {
        long value = state ^ state << 13;
        value ^= value >>> 7;
        return value ^ value << 17;
    }

    private static void receive(String namesrv, int topics) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("StoreLoadReceiver");
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<String>> lines = new ArrayList<>();
        for (int number = 0; number < topics; number++) {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues("Store" + number)) {
                lines.add(threads.submit(() -> drain(consumer, queue)));
            }
        }
        for (Future<String> line : lines) {
            System.out.println(line.get());
        }
    }

    private static String drain(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long at = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        long first = -1;
        long last = -1;
        long count = 0;
        long sum = 0;
        CRC32 crc = new CRC32();
        while (at < end) {
            PullResult pulled = consumer.pull(queue, "*", at, 32, 30_000);
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
            }
            at = pulled.getNextBeginOffset();
        }
        return String.format("%s %d %d %d %d %s", queue.getTopic(), queue.getQueueId(), count, first, last, Long.toUnsignedString(sum));
    }
}
