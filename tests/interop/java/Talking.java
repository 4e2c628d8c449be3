import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;

/** Request and reply: one client sends a request, another replies, through the broker. */
final class Talking {
    private static final Map<String, Runnable> ANSWERERS = new ConcurrentHashMap<>();

    private Talking() {
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("answer-requests", Talking::answerRequests);
        commands.put("stop-answering", arguments -> {
            ANSWERERS.remove(arguments.getString("topic")).run();
            return null;
        });
        commands.put("request", Talking::request);
    }

    /** Replies to every message of the topic with its body and the suffix "-ed". */
    private static Object answerRequests(JSONObject arguments) throws Exception {
        String topic = arguments.getString("topic");
        DefaultMQProducer replier = new DefaultMQProducer("repliers-" + topic);
        Interop.connect(replier, arguments);
        replier.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("answerers-" + topic);
        Interop.join(consumer, arguments);
        consumer.setPullTimeDelayMillsWhenException(100);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (Message asked : messages) {
                try {
                    byte[] body = (new String(asked.getBody(), StandardCharsets.UTF_8) + "-ed").getBytes(StandardCharsets.UTF_8);
                    replier.send(MessageUtil.createReplyMessage(asked, body), Interop.PATIENCE_MS);
                } catch (Exception problem) {
                    problem.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        ANSWERERS.put(topic, () -> {
            consumer.shutdown();
            replier.shutdown();
        });
        return null;
    }

    /** Sends a request, waits for its reply and returns the reply's text. */
    private static Object request(JSONObject arguments) throws Exception {
        Message message = new Message(arguments.getString("topic"), "", arguments.getString("text").getBytes(StandardCharsets.UTF_8));
        Message answer = Producing.kept(arguments).request(message, arguments.getLongValue("timeoutMs"));
        return new String(answer.getBody(), StandardCharsets.UTF_8);
    }
}
