import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs the main methods of Kafka's tools one after the other in one JVM, each release in a class loader of its own.
 *
 * A line of the input is one run: folder of jars (and, behind a colon, one of classes), class and arguments, with
 * tabs between them. The answer is a line
 * with exit code and number of bytes, then what the tool printed to both streams. A release that ends the JVM itself
 * (before 0.10.2 there was nothing between a tool and System.exit) has "exit" for the code.
 */
public final class Tools {
    private static final PrintStream ANSWERS = System.out;
    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();
    private static final Map<String, ClassLoader> RELEASES = new HashMap<>();
    private static volatile boolean running;

    /** In place of the end of the JVM; the first code counts, as tools catch it and exit again. */
    private static final class Exited extends Error {
        private final int code;

        Exited(int code) {
            super("exit " + code, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] ignored) throws Exception {
        PrintStream sink = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
        System.setOut(sink);
        System.setErr(sink);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (running) {
                answer("exit");
            }
        }));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            PRINTED.reset();
            running = true;
            int code = run(words[0], words[1], Arrays.copyOfRange(words, 2, words.length));
            running = false;
            answer(Integer.toString(code));
        }
    }

    private static void answer(String code) {
        byte[] printed = PRINTED.toByteArray();
        ANSWERS.print(code + " " + printed.length + "\n");
        ANSWERS.write(printed, 0, printed.length);
        ANSWERS.flush();
    }

    private static int run(String folder, String name, String[] arguments) throws Exception {
        ClassLoader release = RELEASES.get(folder);
        int[] first = {-1};
        if (release == null) {
            release = open(folder);
            RELEASES.put(folder, release);
        }
        Thread.currentThread().setContextClassLoader(release);
        catchExits(release, first);
        try {
            release.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Exited)) {
                failed.getCause().printStackTrace();
                return 1;
            }
        }
        return Math.max(first[0], 0);
    }

    private static ClassLoader open(String folders) throws IOException {
        List<URL> urls = new ArrayList<>();
        for (String folder : folders.split(File.pathSeparator)) {
            urls.add(new File(folder).toURI().toURL());
            for (File jar : new File(folder).listFiles((parent, file) -> file.endsWith(".jar"))) {
                urls.add(jar.toURI().toURL());
            }
        }
        return new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    }

    private static void catchExits(ClassLoader release, int[] first) throws ReflectiveOperationException {
        Class<?> exit;
        Class<?> procedure;
        try {
            exit = release.loadClass("org.apache.kafka.common.utils.Exit");
            procedure = release.loadClass("org.apache.kafka.common.utils.Exit$Procedure");
        } catch (ClassNotFoundException none) {
            return;
        }
        Object caught = Proxy.newProxyInstance(release, new Class<?>[] {procedure}, (proxy, method, values) -> {
            if (first[0] < 0) {
                first[0] = (Integer) values[0];
            }
            throw new Exited(first[0]);
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, caught);
    }
}
