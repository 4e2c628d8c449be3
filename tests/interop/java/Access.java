import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.plain.PlainAccessResource;
import org.apache.rocketmq.acl.plain.RemoteAddressStrategy;
import org.apache.rocketmq.acl.plain.RemoteAddressStrategyFactory;

/** Classes of Apache's access control. */
final class Access {
    private Access() {
    }

    static void addCommands(Map<String, Interop.Doing> commands) {
        commands.put("address-patterns", Access::addressPatterns);
    }

    /** For each of "cases", a pattern and hosts: "error" if it is refused, else for each host "1" or "0", whether it matches, or "!", if it fails. */
    private static Object addressPatterns(JSONObject arguments) {
        List<String> answers = new ArrayList<>();
        JSONArray cases = arguments.getJSONArray("cases");
        for (int i = 0; i < cases.size(); i++) {
            JSONArray one = cases.getJSONArray(i);
            answers.add(matches(one.getString(0), one.getJSONArray(1)));
        }
        return answers;
    }

    private static String matches(String pattern, JSONArray hosts) {
        RemoteAddressStrategy strategy;
        try {
            strategy = new RemoteAddressStrategyFactory().getRemoteAddressStrategy(pattern);
        } catch (RuntimeException problem) {
            return "error";
        }
        StringBuilder answer = new StringBuilder();
        for (int i = 0; i < hosts.size(); i++) {
            PlainAccessResource peer = new PlainAccessResource();
            peer.setWhiteRemoteAddress(hosts.getString(i));
            try {
                answer.append(strategy.match(peer) ? '1' : '0');
            } catch (RuntimeException problem) {
                answer.append('!');
            }
        }
        return answer.toString();
    }
}
