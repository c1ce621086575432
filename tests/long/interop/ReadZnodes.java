import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import kafka.admin.PreferredReplicaLeaderElectionCommand;
import kafka.cluster.Broker;
import kafka.controller.KafkaController;
import kafka.utils.Json;
import kafka.utils.ZkUtils;

/**
 * What the classes of Kafka 0.8.2.2 read in znodes: for each pair of arguments, KIND and the data in hexadecimal,
 * a line says "read" and what they made of it, or the error, in hexadecimal too.
 */
public class ReadZnodes {
    public static void main(String[] arguments) {
        for (int index = 0; index < arguments.length; index += 2) {
            String data = new String(HexFormat.of().parseHex(arguments[index + 1]), StandardCharsets.UTF_8);
            String found;
            try {
                found = read(arguments[index], data);
            } catch (Exception error) {
                found = "error " + error;
            }
            System.out.println("read " + HexFormat.of().formatHex(found.getBytes(StandardCharsets.UTF_8)));
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
