import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import kafka.security.authorizer.AclAuthorizer;
import kafka.security.authorizer.AclEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What AclAuthorizer of Kafka decides: for each line of a file, a JSON object, the same object with answers.
 * `super_users`; `open` is allow.everyone.if.no.acl.found; `changes` in turn: type of resource, type of pattern,
 * name, and the znode, null where it is gone. `asked`: principal, address, operation, type, and the name, null for
 * any resource of the type; `found` has 1 for each that is allowed, else 0. `filters`: type, name, type of pattern,
 * principal, host, operation, permission; `listed` has the sorted ACLs that each means.
 */
public final class AclDecisions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final AclAuthorizer authorizer = new AclAuthorizer();

    public static void main(String[] arguments) throws Exception {
        AclDecisions decisions = new AclDecisions();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            System.out.println(JSON.writeValueAsString(decisions.answer((ObjectNode) JSON.readTree(line))));
        }
    }

    private ObjectNode answer(ObjectNode row) throws Exception {
        Set<KafkaPrincipal> superUsers = new HashSet<>();
        row.get("super_users").forEach(one -> superUsers.add(SecurityUtils.parseKafkaPrincipal(one.asText())));
        set("superUsers", CollectionConverters.asScala(superUsers).toSet());
        set("shouldAllowEveryoneIfNoAclIsFound", row.get("open").asBoolean());
        for (JsonNode change : row.get("changes")) {
            authorizer.updateCache(pattern(change), acls(change.get(3)));
        }
        StringBuilder found = new StringBuilder();
        for (JsonNode asked : row.get("asked")) {
            found.append(isAllowed(asked) ? '1' : '0');
        }
        row.put("found", found.toString());
        ArrayNode listed = row.putArray("listed");
        for (JsonNode filter : row.get("filters")) {
            listed.add(JSON.valueToTree(listed(filter)));
        }
        for (JsonNode change : row.get("changes")) {
            authorizer.updateCache(pattern(change), AclAuthorizer.NoAcls());
        }
        return row;
    }

    private void set(String name, Object value) throws Exception {
        Field field = AclAuthorizer.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(authorizer, value);
    }

    private static ResourcePattern pattern(JsonNode row) {
        return new ResourcePattern(
            ResourceType.valueOf(row.get(0).asText()), row.get(2).asText(), PatternType.valueOf(row.get(1).asText()));
    }

    private static AclAuthorizer.VersionedAcls acls(JsonNode znode) {
        if (znode.isNull()) {
            return AclAuthorizer.NoAcls();
        }
        byte[] data = znode.asText().getBytes(StandardCharsets.UTF_8);
        return new AclAuthorizer.VersionedAcls(AclEntry.fromBytes(data), 0);
    }

    private boolean isAllowed(JsonNode asked) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(asked.get(0).asText());
        InetAddress address = InetAddress.getByName(asked.get(1).asText());
        AuthorizableRequestContext context = (AuthorizableRequestContext) Proxy.newProxyInstance(
            AclDecisions.class.getClassLoader(), new Class<?>[] {AuthorizableRequestContext.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "principal" -> principal;
                case "clientAddress" -> address;
                case "requestType" -> 0;
                default -> throw new UnsupportedOperationException(method.getName());
            });
        AclOperation operation = AclOperation.valueOf(asked.get(2).asText());
        ResourceType type = ResourceType.valueOf(asked.get(3).asText());
        if (asked.get(4).isNull()) {
            return authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED;
        }
        ResourcePattern resource = new ResourcePattern(type, asked.get(4).asText(), PatternType.LITERAL);
        Action action = new Action(operation, resource, 1, false, false);
        return authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED;
    }

    private List<String> listed(JsonNode row) {
        AclBindingFilter filter = new AclBindingFilter(
            new ResourcePatternFilter(
                ResourceType.valueOf(row.get(0).asText()), text(row.get(1)), PatternType.valueOf(row.get(2).asText())),
            new AccessControlEntryFilter(
                text(row.get(3)), text(row.get(4)), AclOperation.valueOf(row.get(5).asText()),
                AclPermissionType.valueOf(row.get(6).asText())));
        List<String> found = new java.util.ArrayList<>();
        for (AclBinding one : authorizer.acls(filter)) {
            found.add(String.join(
                " ", one.pattern().resourceType().name(), one.pattern().patternType().name(), one.pattern().name(),
                one.entry().principal(), one.entry().host(), one.entry().operation().name(),
                one.entry().permissionType().name()));
        }
        found.sort(null);
        return found;
    }

    private static String text(JsonNode value) {
        return value.isNull() ? null : value.asText();
    }
}
