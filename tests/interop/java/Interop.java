import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * The official client, remote-controlled: one JSON object per line in each direction.
 *
 * In:  {"id": 1, "do": "send", ...arguments}
 * Out: {"id": 1, "result": ...} or {"id": 1, "error": "Class: message; caused by Class: message"}
 *
 * Every command runs in its own thread, so a long one does not delay others; results arrive in any order. Nothing
 * waits for a fixed time: commands wait for a condition with a deadline. The end of the input ends the program.
 */
public class Interop {
    interface Doing {
        Object run(JSONObject arguments) throws Exception;
    }

    /** Timeout of every operation on a busy machine; other tests detect slow servers. */
    static final int PATIENCE_MS = 30_000;
    static final Map<String, Doing> COMMANDS = new ConcurrentHashMap<>();
    private static PrintStream out;

    public static void main(String[] ignored) throws Exception {
        out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // output of libraries must not appear between results
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, String.valueOf(MQVersion.CURRENT_VERSION));
        System.setProperty("com.rocketmq.remoting.client.connect.timeout", String.valueOf(PATIENCE_MS));
        // A client disconnects if a response is late (for locks, within a second), and then it is no longer a member of its group.
        System.setProperty("com.rocketmq.remoting.client.closeSocketIfTimeout", "false");
        Producing.addCommands(COMMANDS);
        Consuming.addCommands(COMMANDS);
        Asking.addCommands(COMMANDS);
        Kinds.addCommands(COMMANDS);
        Talking.addCommands(COMMANDS);
        Relaying.addCommands(COMMANDS);
        Administering.addCommands(COMMANDS);
        Access.addCommands(COMMANDS);
        ExecutorService threads = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject request = JSON.parseObject(line);
            threads.execute(() -> answer(request));
        }
        Runtime.getRuntime().halt(0); // not exit: shutdown hooks of clients would wait for a broker that has ended
    }

    private static void answer(JSONObject request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", request.get("id"));
        try {
            Doing doing = COMMANDS.get(request.getString("do"));
            if (doing == null) {
                throw new IllegalArgumentException("no command " + request.getString("do") + "; there are " + COMMANDS.keySet());
            }
            answer.put("result", doing.run(request));
        } catch (Throwable problem) {
            answer.put("error", withCauses(problem));
            problem.printStackTrace();
        }
        String line = JSON.toJSONString(answer, SerializerFeature.DisableCircularReferenceDetect, SerializerFeature.WriteMapNullValue);
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private static String withCauses(Throwable problem) {
        String text = problem.getClass().getSimpleName() + ": " + problem.getMessage();
        Throwable cause = problem.getCause();
        return cause == null ? text : text + "; caused by " + withCauses(cause);
    }

    /** Waits for a condition; false if the deadline passes. */
    static boolean await(long deadlineMs, java.util.concurrent.Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + deadlineMs * 1_000_000;
        while (!condition.call()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(5);
        }
        return true;
    }

    /** Sets a client's name server and long timeouts: if its first heartbeat times out, the broker does not know it for half a minute. */
    static void connect(ClientConfig client, String nameServer) {
        client.setNamesrvAddr(nameServer);
        client.setMqClientApiTimeout(PATIENCE_MS);
    }

    /** The same, with its "namespace" and its "unit" if they are given. Without "namesrv" the client asks the address service. */
    static void connect(ClientConfig client, JSONObject arguments) {
        connect(client, arguments.getString("namesrv"));
        if (arguments.containsKey("unit")) {
            client.setUnitName(arguments.getString("unit"));
        }
        if (arguments.containsKey("namespace")) {
            client.setNamespace(arguments.getString("namespace"));
        }
    }

    /** The same for a member of a group: after a broker has dropped it, it registers again within a second, not half a minute. */
    static void join(ClientConfig client, JSONObject arguments) {
        connect(client, arguments);
        client.setHeartbeatBrokerInterval(arguments.containsKey("heartbeatMs") ? arguments.getIntValue("heartbeatMs") : 1000);
    }

    /** The internal instance of a started client, with long timeouts for queries of offsets and messages, which have separate settings. */
    static MQClientInstance instance(ClientConfig client) {
        MQClientInstance instance = MQClientManager.getInstance().getOrCreateMQClientInstance(client);
        instance.getMQAdminImpl().setTimeoutMillis(PATIENCE_MS);
        return instance;
    }

    /** An instance name unique to this JVM: a broker sends a reply to the client that last registered with the requester's name. */
    static String named(String word) {
        return word + ProcessHandle.current().pid() + "-";
    }

    static <T> T or(T value, T otherwise) {
        return value == null ? otherwise : value;
    }
}
