import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.network.ConnectionQuotas;
import kafka.network.RequestChannel;
import kafka.security.CredentialProvider;
import kafka.server.ClientIdConfigHandler;
import kafka.server.ClientQuotaManager;
import kafka.server.IpConfigHandler;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory;
import kafka.server.UserConfigHandler;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;

/**
 * Which quota the classes of a Kafka broker give to clients and addresses: for each line of a file, a JSON object
 * with `changes`, pairs of an entity below /config and its configuration in turn, and with `asked`, keys that are
 * quotas and lists of [user, client id] or [address], the same object with `found`, in the order of `asked`: value,
 * user and client id of those that share it, or null.
 */
public final class QuotaLevels {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Metrics metrics = new Metrics();
    private final QuotaFactory.QuotaManagers managers;
    private final ConnectionQuotas connections;
    private final UserConfigHandler users;
    private final ClientIdConfigHandler clients;
    private final IpConfigHandler addresses;

    private QuotaLevels() {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", "none");
        KafkaConfig config = KafkaConfig.fromProps(settings);
        managers = QuotaFactory.instantiate(config, metrics, Time.SYSTEM, "");
        connections = new ConnectionQuotas(config, Time.SYSTEM, metrics);
        users = new UserConfigHandler(managers, new CredentialProvider(List.of(), null));
        clients = new ClientIdConfigHandler(managers);
        addresses = new IpConfigHandler(connections);
    }

    public static void main(String[] arguments) throws Exception {
        QuotaLevels levels = new QuotaLevels();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(JSON.writeValueAsString(levels.answer((ObjectNode) JSON.readTree(line))));
        }
        levels.connections.close();
        levels.managers.shutdown();
    }

    private ObjectNode answer(ObjectNode row) throws Exception {
        for (JsonNode change : row.get("changes")) {
            configure(change.get(0).asText(), change.get(1));
        }
        ObjectNode found = row.putObject("found");
        for (Map.Entry<String, JsonNode> asked : (Iterable<Map.Entry<String, JsonNode>>) row.get("asked")::fields) {
            for (JsonNode one : asked.getValue()) {
                found.withArray(asked.getKey()).add(JSON.valueToTree(quota(asked.getKey(), one)));
            }
        }
        for (JsonNode change : row.get("changes")) {
            configure(change.get(0).asText(), JSON.createObjectNode());
        }
        return row;
    }

    private void configure(String entity, JsonNode config) {
        Properties properties = new Properties();
        config.fields().forEachRemaining(pair -> properties.put(pair.getKey(), pair.getValue().asText()));
        String name = entity.substring(entity.indexOf('/') + 1);
        if (entity.startsWith("users/")) {
            users.processConfigChanges(name, properties);
        } else if (entity.startsWith("clients/")) {
            clients.processConfigChanges(name, properties);
        } else {
            addresses.processConfigChanges(name, properties);
        }
    }

    private List<Object> quota(String key, JsonNode asked) throws Exception {
        if (key.equals("connection_creation_rate")) {
            int rate = connections.connectionRateForIp(InetAddress.getByName(asked.get(0).asText()));
            return rate == Integer.MAX_VALUE ? null : List.of((double) rate, "", "");
        }
        ClientQuotaManager manager = switch (key) {
            case "producer_byte_rate" -> managers.produce();
            case "consumer_byte_rate" -> managers.fetch();
            case "request_percentage" -> managers.request();
            default -> managers.controllerMutation();
        };
        KafkaPrincipal principal = new KafkaPrincipal("User", asked.get(0).asText());
        String client = asked.get(1).asText();
        double bound = manager.quota(principal, client).bound();
        if (bound >= Long.MAX_VALUE) {
            return null;
        }
        RequestChannel.Session session = new RequestChannel.Session(principal, InetAddress.getLoopbackAddress());
        scala.collection.immutable.Map<String, String> tags =
            manager.getOrCreateQuotaSensors(session, client).metricTags();
        return List.of(bound, tags.apply("user"), tags.apply("client-id"));
    }
}
