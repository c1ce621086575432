import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;

/** Reads one expression a line, writes what java.util.regex makes of it: "!" or the names it matches. */
public class JavaRegex {
    public static void main(String[] args) throws Exception {
        List<String> names = Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8);
        StringBuilder out = new StringBuilder();
        for (String expression : Files.readAllLines(Paths.get(args[1]), StandardCharsets.UTF_8)) {
            try {
                Pattern pattern = Pattern.compile(expression);
                List<String> matched = new ArrayList<>();
                for (String name : names) if (pattern.matcher(name).matches()) matched.add(name);
                out.append("=" + String.join(" ", matched));
            } catch (PatternSyntaxException e) {
                out.append("!");
            }
            out.append("\n");
        }
        System.out.print(out);
    }
}
