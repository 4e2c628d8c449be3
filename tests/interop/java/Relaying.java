import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.Connection;
import org.apache.rocketmq.common.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Requests of tools to consumers, relayed by the broker. */
final class Relaying {
    private Relaying() {
    }

    private interface Asked {
        Object of(DefaultMQAdminExt admin, JSONObject arguments) throws Exception;
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("client-ids", arguments -> ask(arguments, (admin, asked) -> {
            List<String> ids = new ArrayList<>();
            for (Connection connection : admin.examineConsumerConnectionInfo(asked.getString("group")).getConnectionSet()) {
                ids.add(connection.getClientId());
            }
            return ids;
        }));
        commands.put("running-info", arguments -> ask(arguments, (admin, asked) -> {
            ConsumerRunningInfo info = admin.getConsumerRunningInfo(asked.getString("group"), asked.getString("clientId"), false);
            Map<String, Object> said = new LinkedHashMap<>();
            List<String> topics = new ArrayList<>();
            info.getSubscriptionSet().forEach(one -> topics.add(one.getTopic()));
            said.put("topics", topics);
            said.put("queues", info.getMqTable().size());
            List<Object> pulls = new ArrayList<>();
            info.getMqTable().forEach((queue, process) -> pulls.add(Map.of("topic", queue.getTopic(), "lastPullTimestamp", process.getLastPullTimestamp())));
            said.put("pulls", pulls);
            said.put("properties", info.getProperties());
            return said;
        }));
        commands.put("consume-directly", arguments -> ask(arguments, (admin, asked) -> {
            ConsumeMessageDirectlyResult result = admin.consumeMessageDirectly(
                asked.getString("group"), asked.getString("clientId"), asked.getString("topic"), asked.getString("msgId"));
            return result.getConsumeResult().name();
        }));
        commands.put("reset-by-time", arguments -> ask(arguments, (admin, asked) -> {
            Map<String, Long> said = new LinkedHashMap<>();
            for (Map.Entry<MessageQueue, Long> entry : admin.resetOffsetByTimestamp(
                asked.getString("topic"), asked.getString("group"), asked.getLongValue("timestamp"), asked.getBooleanValue("force")).entrySet()) {
                said.put(String.valueOf(entry.getKey().getQueueId()), entry.getValue());
            }
            return said;
        }));
        commands.put("reset-offline", arguments -> ask(arguments, (admin, asked) -> {
            Map<String, Long> said = new LinkedHashMap<>();
            admin.resetOffsetByTimestampOld(asked.getString("group"), asked.getString("topic"), asked.getLongValue("timestamp"), asked.getBooleanValue("force"))
                .forEach(one -> said.put(String.valueOf(one.getQueueId()), one.getRollbackOffset()));
            return said;
        }));
        commands.put("consumer-offsets", arguments -> ask(arguments, (admin, asked) -> {
            Map<String, Map<String, Long>> said = new LinkedHashMap<>();
            admin.getConsumeStatus(asked.getString("topic"), asked.getString("group"), null).forEach((client, offsets) -> {
                Map<String, Long> queues = new LinkedHashMap<>();
                offsets.forEach((queue, offset) -> queues.put(String.valueOf(queue.getQueueId()), offset));
                said.put(client, queues);
            });
            return said;
        }));
    }

    private static Object ask(JSONObject arguments, Asked asked) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Interop.PATIENCE_MS);
        Interop.connect(admin, arguments.getString("namesrv"));
        admin.setInstanceName(Interop.named("relaying-") + System.nanoTime());
        admin.start();
        Interop.instance(admin);
        try {
            return asked.of(admin, arguments);
        } finally {
            admin.shutdown();
        }
    }
}
