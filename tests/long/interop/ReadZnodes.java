import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import kafka.admin.PreferredReplicaLeaderElectionCommand;
import kafka.cluster.Broker;
import kafka.controller.KafkaController;
import kafka.utils.Json;
import kafka.utils.ZkUtils;

/**
 * What the classes of Kafka 0.8.2.2 read in a znode: a line in is KIND and the data in hexadecimal, a line out
 * is what they made of it, or the error, in hexadecimal too.
 */
public class ReadZnodes {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            String data = new String(HexFormat.of().parseHex(parts[1]), StandardCharsets.UTF_8);
            String found;
            try {
                found = read(parts[0], data);
            } catch (Exception error) {
                found = "error " + error;
            }
            out.println(HexFormat.of().formatHex(found.getBytes(StandardCharsets.UTF_8)));
        }
    }

    private static String read(String kind, String data) {
        switch (kind) {
            case "broker":
                return Broker.createBroker(3, data).toString();
            case "controller":
                return String.valueOf(KafkaController.parseControllerId(data));
            case "reassignment":
                return ZkUtils.parsePartitionReassignmentData(data).toString();
            case "election":
                return PreferredReplicaLeaderElectionCommand.parsePreferredReplicaElectionData(data).toString();
            default:
                return Json.parseFull(data).toString();
        }
    }
}
