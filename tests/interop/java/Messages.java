import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Creates messages from a number, and descriptions of messages that both sides of a test can compare. */
final class Messages {
    private static final String[] WORDS = {"weir", "sluice", "head", "race", "mill", "größe", "水車", "🚀", "tail", "pond"};

    private Messages() {
    }

    /** The same topic, number and size give the same message. Every field that users can set is set in some of them. */
    static Message make(String topic, int number, int size, String tag) {
        Message message = new Message(topic, body(topic, number, size));
        if (tag != null) {
            message.setTags(tag);
        } else if (number % 17 != 0) {
            message.setTags("Tag" + (char) ('A' + number % 3));
        }
        message.setKeys(number % 10 == 3 ? List.of("key-" + number, "tens-" + number / 10, "schlüssel-" + number) : List.of("key-" + number));
        message.putUserProperty("number", String.valueOf(number));
        if (number % 5 == 0) {
            message.putUserProperty("größe", "wert " + number + " 值 \"quoted\" \\ and\ttab");
        }
        if (number % 7 == 0) {
            message.setFlag(-number);
            message.setBuyerId("buyer-" + number);
        }
        return message;
    }

    /** Words, so that it can be compressed; exactly size bytes. */
    private static byte[] body(String topic, int number, int size) {
        Random random = new Random(topic.hashCode() * 31L + number);
        StringBuilder text = new StringBuilder(topic).append(' ').append(number);
        byte[] out = new byte[size];
        while (text.length() < size) {
            text.append(' ').append(WORDS[random.nextInt(WORDS.length)]).append(random.nextInt(100));
        }
        System.arraycopy(text.toString().getBytes(StandardCharsets.UTF_8), 0, out, 0, size);
        return out;
    }

    /** The sender's description of a message. */
    static Map<String, Object> describe(Message message) throws Exception {
        Map<String, Object> said = new LinkedHashMap<>();
        said.put("topic", message.getTopic());
        said.put("flag", message.getFlag());
        said.put("keys", message.getKeys());
        said.put("tags", message.getTags());
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody(); // the client replaces an empty one by null
        said.put("bodyLength", body.length);
        said.put("bodySha256", sha256(body));
        said.put("properties", new TreeMap<>(message.getProperties()));
        return said;
    }

    /** The receiver's description of a message. */
    static Map<String, Object> describe(MessageExt message) throws Exception {
        Map<String, Object> said = describe((Message) message);
        said.put("msgId", message.getMsgId());
        said.put("queueId", message.getQueueId());
        said.put("queueOffset", message.getQueueOffset());
        said.put("physicalOffset", message.getCommitLogOffset());
        said.put("storeSize", message.getStoreSize());
        said.put("sysFlag", message.getSysFlag());
        said.put("bodyCrc", message.getBodyCRC());
        said.put("reconsumeTimes", message.getReconsumeTimes());
        said.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        said.put("bornTimestamp", message.getBornTimestamp());
        said.put("storeTimestamp", message.getStoreTimestamp());
        said.put("bornHost", host(message.getBornHost()));
        said.put("storeHost", host(message.getStoreHost()));
        if (message instanceof org.apache.rocketmq.common.message.MessageClientExt) {
            said.put("offsetMsgId", ((org.apache.rocketmq.common.message.MessageClientExt) message).getOffsetMsgId());
        }
        return said;
    }

    static List<Map<String, Object>> describe(Iterable<MessageExt> messages) throws Exception {
        List<Map<String, Object>> said = new ArrayList<>();
        for (MessageExt message : messages) {
            said.add(describe(message));
        }
        return said;
    }

    private static String host(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        return host.getAddress().getHostAddress() + ":" + host.getPort();
    }

    private static String sha256(byte[] bytes) throws Exception {
        return UtilAll.bytes2string(MessageDigest.getInstance("SHA-256").digest(bytes)).toLowerCase();
    }
}
