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
 * The official client, remote-controlled: one JSON object a line in, one a line out.
 *
 * In:  {"id": 1, "do": "send", ...arguments}
 * Out: {"id": 1, "result": ...} or {"id": 1, "error": "Class: message"}
 *
 * Every command runs on a thread of its own, so a long one does not keep others waiting; answers come in any order. Nothing
 * here waits a fixed time: commands wait for a condition, with a deadline. The end of the input ends the program.
 */
public class Interop {
    interface Doing {
        Object run(JSONObject arguments) throws Exception;
    }

    /** How long a busy machine may take for anything; that a server is slow is for other tests to find. */
    static final int PATIENCE_MS = 30_000;
    static final Map<String, Doing> COMMANDS = new ConcurrentHashMap<>();
    private static PrintStream out;

    public static void main(String[] ignored) throws Exception {
        out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not come between the answers
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, String.valueOf(MQVersion.CURRENT_VERSION));
        System.setProperty("com.rocketmq.remoting.client.connect.timeout", String.valueOf(PATIENCE_MS));
        // A client hangs up when one answer is late (a lock's within a second), and whose connection ends is no member of its group any more.
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
        Runtime.getRuntime().halt(0); // not exit: shutdown hooks of clients whose broker is gone would wait for it
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
            answer.put("error", problem.getClass().getSimpleName() + ": " + problem.getMessage());
            problem.printStackTrace();
        }
        String line = JSON.toJSONString(answer, SerializerFeature.DisableCircularReferenceDetect, SerializerFeature.WriteMapNullValue);
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    /** Waits until something is so; false when it is not by the deadline. */
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

    /** Tells a client its name server, and patience: one whose first heartbeat is given up is a stranger to the broker for half a minute. */
    static void connect(ClientConfig client, String nameServer) {
        client.setNamesrvAddr(nameServer);
        client.setMqClientApiTimeout(PATIENCE_MS);
    }

    /** The same, and the "namespace" that it lives in, if one is given. */
    static void connect(ClientConfig client, JSONObject arguments) {
        connect(client, arguments.getString("namesrv"));
        if (arguments.containsKey("namespace")) {
            client.setNamespace(arguments.getString("namespace"));
        }
    }

    /** The same for a member of a group: whom a broker has forgotten is known to it again a second later, not half a minute. */
    static void join(ClientConfig client, JSONObject arguments) {
        connect(client, arguments);
        client.setHeartbeatBrokerInterval(arguments.containsKey("heartbeatMs") ? arguments.getIntValue("heartbeatMs") : 1000);
    }

    /** A client that has been started, as its other half knows it; with patience for look-ups of offsets and messages, which have a time of their own. */
    static MQClientInstance instance(ClientConfig client) {
        MQClientInstance instance = MQClientManager.getInstance().getOrCreateMQClientInstance(client);
        instance.getMQAdminImpl().setTimeoutMillis(PATIENCE_MS);
        return instance;
    }

    /** A client's name that no other JVM has: a broker sends a reply to whoever registered last under the asker's name. */
    static String named(String word) {
        return word + ProcessHandle.current().pid() + "-";
    }

    static <T> T or(T value, T otherwise) {
        return value == null ? otherwise : value;
    }
}
