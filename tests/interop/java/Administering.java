import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Apache's command line in this JVM: a warm JVM answers in a tenth of the start time of a new one. */
class Administering {
    /** Some commands keep the client of their first run, which used another name server and is shut down. */
    private static final class Fresh extends MQAdminStartup {
        static void forgetCommands() {
            subCommandList.clear();
        }
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("mqadmin", Administering::mqadmin);
    }

    /** Runs mqadmin with "arguments"; returns its output, with "errors" also that to standard error. One run at a time, because it prints to the JVM's own output. */
    private static synchronized String mqadmin(JSONObject arguments) throws Exception {
        if (System.getProperty("rocketmq.home.dir") == null) {
            Path conf = Files.createDirectories(Path.of(System.getProperty("user.home"), "conf"));
            Files.writeString(conf.resolve("logback_tools.xml"), "<configuration><root level=\"OFF\"/></configuration>");
            System.setProperty("rocketmq.home.dir", conf.getParent().toString());
        }
        Fresh.forgetCommands();
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        PrintStream errorsBefore = System.err;
        PrintStream printer = new PrintStream(printed, true, StandardCharsets.UTF_8);
        System.setOut(printer);
        if (arguments.getBooleanValue("errors")) {
            System.setErr(printer);
        }
        try {
            MQAdminStartup.main(arguments.getJSONArray("arguments").toArray(new String[0]));
        } finally {
            System.setOut(before);
            System.setErr(errorsBefore);
            System.clearProperty("rocketmq.namesrv.addr"); // the command's, not this JVM's
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}
