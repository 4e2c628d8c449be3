import com.alibaba.fastjson.JSON;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** What the official client's six strategies give for random groups: a JSON object a line, the same at every run. See README.md. */
public class Allocation {
    private static final String[] ROOMS = {"r1", "r2", "R3", "hangzhou", ""};
    private static final String[] TOPICS = {"T", "TopicTest", "%RETRY%group-1", "order_topic"};

    private final Random random = new Random(20260728);

    public static void main(String[] ignored) {
        Allocation allocation = new Allocation();
        for (int number = 0; number < 1000; number++) {
            System.out.println(JSON.toJSONString(allocation.next()));
        }
    }

    private Map<String, Object> next() {
        String topic = TOPICS[random.nextInt(TOPICS.length)];
        List<MessageQueue> queues = queues(topic);
        List<String> members = members();
        int nodes = random.nextInt(4) == 0 ? random.nextInt(25) : 10;
        Set<String> rooms = new TreeSet<>();
        for (int at = random.nextInt(ROOMS.length) + 1; at > 0; at--) {
            rooms.add(ROOMS[random.nextInt(ROOMS.length)]);
        }
        List<MessageQueue> fixed = queues.stream().filter(one -> random.nextInt(3) == 0).collect(Collectors.toList());

        AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
        byConfig.setMessageQueueList(fixed);
        AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
        byRoom.setConsumeridcs(rooms);
        AllocateMachineRoomNearby.MachineRoomResolver resolver = new AllocateMachineRoomNearby.MachineRoomResolver() {
            @Override
            public String brokerDeployIn(MessageQueue queue) {
                return "room " + queue.getBrokerName().split("@", -1)[0];
            }

            @Override
            public String consumerDeployIn(String clientId) {
                return "room " + clientId.split("!", -1)[0];
            }
        };
        Map<String, AllocateMessageQueueStrategy> strategies = new LinkedHashMap<>();
        strategies.put("averagely", new AllocateMessageQueueAveragely());
        strategies.put("circle", new AllocateMessageQueueAveragelyByCircle());
        strategies.put("consistentHash", new AllocateMessageQueueConsistentHash(nodes));
        strategies.put("machineRoom", byRoom);
        strategies.put("nearby", new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), resolver));
        strategies.put("nearbyCircle", new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), resolver));
        strategies.put("config", byConfig);

        Map<String, Object> line = new LinkedHashMap<>();
        line.put("topic", topic);
        line.put("queues", queues.stream().map(one -> one.getBrokerName() + ":" + one.getQueueId()).collect(Collectors.toList()));
        line.put("members", members);
        line.put("nodes", nodes);
        line.put("rooms", rooms);
        line.put("fixed", places(queues, fixed));
        // Every member's share, and that of one who is not there.
        List<String> askers = new ArrayList<>(new TreeSet<>(members));
        askers.add("10.9.9.9@stranger");
        line.put("askers", askers);
        Map<String, Object> shares = new LinkedHashMap<>();
        strategies.forEach((name, strategy) -> shares.put(name,
            askers.stream().map(asker -> places(queues, strategy.allocate("group-1", asker, queues, members))).collect(Collectors.toList())));
        line.put("shares", shares);
        return line;
    }

    private static List<Integer> places(List<MessageQueue> queues, List<MessageQueue> share) {
        return share.stream().map(queues::indexOf).collect(Collectors.toList());
    }

    /** Sorted, as the client sorts them; some brokers belong to rooms. */
    private List<MessageQueue> queues(String topic) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int broker = random.nextInt(5); broker >= 0; broker--) {
            String name = random.nextBoolean() ? "broker-" + (char) ('a' + broker) : ROOMS[random.nextInt(ROOMS.length)] + "@b" + broker;
            if (random.nextInt(20) == 0) {
                name = random.nextBoolean() ? "r1@b@" + broker : "r1@";
            }
            for (int id = random.nextInt(random.nextInt(4) == 0 ? 20 : 8); id >= 0; id--) {
                MessageQueue queue = new MessageQueue(topic, name, id);
                if (!queues.contains(queue)) {
                    queues.add(queue);
                }
            }
        }
        Collections.sort(queues);
        return queues;
    }

    private List<String> members() {
        List<String> members = new ArrayList<>();
        for (int at = random.nextInt(random.nextInt(3) == 0 ? 30 : 6); at >= 0; at--) {
            String room = random.nextInt(3) == 0 ? ROOMS[random.nextInt(ROOMS.length)] + "!" : "";
            members.add(room + "10.0." + random.nextInt(3) + "." + random.nextInt(256) + "@" + random.nextInt(100000) + "#" + random.nextInt(1000000));
        }
        if (random.nextInt(10) == 0) {
            members.add(members.get(0)); // two clients with one id
        }
        Collections.sort(members);
        return members;
    }
}
