import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.util.BitsArray;
import org.apache.rocketmq.filter.util.BloomFilter;

/**
 * What RocketMQ's own filter classes make of expressions and of names.
 *
 * <pre>
 * Sql92 outcomes < cases    a line {"expression", "properties"} becomes the same with "outcome"
 * Sql92 bloom < names       a line {"error", "expected", "name"} gets "bits", "positions" and "map" (hex)
 * Sql92 time EXPRESSION PROPERTY-STRING SECONDS     evaluations a second over a stored property string
 * </pre>
 *
 * Outcomes: TRUE, FALSE, NULL (unknown), ERROR (the evaluation throws), REFUSED (it does not compile).
 */
public final class Sql92 {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static volatile Object sink;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("time")) {
            time(arguments[1], arguments[2], Double.parseDouble(arguments[3]));
        } else {
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                JSONObject asked = JSON.parseObject(line, Feature.OrderedField);
                Map<String, Object> told = arguments[0].equals("bloom") ? bloom(asked) : outcome(asked);
                OUT.println(JSON.toJSONString(told, SerializerFeature.MapSortField));
            }
        }
        OUT.flush();
    }

    private static Map<String, Object> outcome(JSONObject asked) {
        Map<String, Object> told = new TreeMap<>(asked);
        try {
            Expression expression = compile(asked.getString("expression"));
            Map<String, String> properties = new LinkedHashMap<>();
            for (Map.Entry<String, Object> property : asked.getJSONObject("properties").entrySet()) {
                properties.put(property.getKey(), (String) property.getValue());
            }
            try {
                Object value = expression.evaluate(new MessageEvaluationContext(properties));
                told.put("outcome", value == null ? "NULL" : value instanceof Boolean ? value.toString().toUpperCase() : "OTHER");
            } catch (Exception error) {
                told.put("outcome", "ERROR");
            }
        } catch (MQFilterException error) {
            told.put("outcome", "REFUSED");
        } catch (Throwable error) {
            // What no catch clause of the broker's awaits; the heartbeat or the pull fails.
            told.put("outcome", "THROWN " + error.getClass().getSimpleName());
        }
        return told;
    }

    private static Map<String, Object> bloom(JSONObject asked) {
        Map<String, Object> told = new TreeMap<>(asked);
        BloomFilter filter = BloomFilter.createByFn(asked.getIntValue("error"), asked.getIntValue("expected"));
        int[] positions = filter.calcBitPositions(asked.getString("name"));
        BitsArray bits = BitsArray.create(filter.getM());
        filter.hashTo(positions, bits);
        StringBuilder hex = new StringBuilder();
        for (byte one : bits.bytes()) {
            hex.append(String.format("%02x", one));
        }
        told.put("bits", filter.getM());
        told.put("positions", positions);
        told.put("map", hex.toString());
        return told;
    }

    private static void time(String text, String stored, double seconds) throws Exception {
        String escaped = stored.replace('=', '\u0001').replace(';', '\u0002');
        Expression expression = compile(text);
        byte[] bytes = escaped.getBytes(StandardCharsets.UTF_8);
        for (int round = 0; round < 4; round++) {
            double rate = rate(seconds, () -> {
                String decoded = new String(bytes, StandardCharsets.UTF_8);
                return expression.evaluate(new MessageEvaluationContext(MessageDecoder.string2messageProperties(decoded)));
            });
            OUT.printf("round=%d rate=%.0f%n", round, rate);
        }
    }

    /** Calls a second of this thread's processor time. */
    private static double rate(double seconds, Callable<Object> work) throws Exception {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long begin = threads.getCurrentThreadCpuTime();
        long count = 0;
        while (threads.getCurrentThreadCpuTime() - begin < seconds * 1e9) {
            for (int i = 0; i < 1000; i++) {
                sink = work.call();
            }
            count += 1000;
        }
        return count / ((threads.getCurrentThreadCpuTime() - begin) / 1e9);
    }

    private static Expression compile(String text) throws MQFilterException {
        return FilterFactory.INSTANCE.get("SQL92").compile(text);
    }
}
