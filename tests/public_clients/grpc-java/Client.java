import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.Descriptors.MethodDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.util.JsonFormat;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Makes the calls that standard input describes, by gRPC's client for Java, and prints what came back.
 *
 * <p>Reads and prints what ../grpc-js/client.js does, but in place of "proto" there is "descriptors", a file with a
 * FileDescriptorSet of the service: no code is generated from it.
 */
public final class Client {
  private static final JsonFormat.Printer PRINTER =
      JsonFormat.printer().preservingProtoFieldNames().omittingInsignificantWhitespace();

  private final ManagedChannel channel;
  private final FileDescriptor service;
  private final boolean compressed;

  private Client(ManagedChannel channel, FileDescriptor service, boolean compressed) {
    this.channel = channel;
    this.service = service;
    this.compressed = compressed;
  }

  private static FileDescriptor descriptors(String path) throws Exception {
    FileDescriptorSet set = FileDescriptorSet.parseFrom(Files.readAllBytes(Path.of(path)));
    List<FileDescriptor> built = new ArrayList<>();
    for (FileDescriptorProto file : set.getFileList()) {
      built.add(FileDescriptor.buildFrom(file, built.toArray(new FileDescriptor[0])));
    }
    return built.get(built.size() - 1);
  }

  private static Metadata metadata(JsonObject call) {
    Metadata metadata = new Metadata();
    if (!call.has("metadata")) return metadata;
    for (var entry : call.getAsJsonObject("metadata").entrySet()) {
      String name = entry.getKey();
      String value = entry.getValue().getAsString();
      if (name.endsWith("-bin")) {
        metadata.put(
            Metadata.Key.of(name, Metadata.BINARY_BYTE_MARSHALLER), value.getBytes(StandardCharsets.UTF_8));
      } else {
        metadata.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
      }
    }
    return metadata;
  }

  private DynamicMessage message(Descriptor type, JsonElement json) throws Exception {
    DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
    JsonFormat.parser().merge(json.toString(), builder);
    return builder.build();
  }

  /** Begins a call, and gives what it will have ended with. */
  private CompletableFuture<JsonObject> begin(JsonObject call, List<JsonElement> requests) throws Exception {
    MethodDescriptor method =
        service.findServiceByName("GRPCInferenceService").findMethodByName(call.get("method").getAsString());
    boolean streams = method.isClientStreaming();
    var description =
        io.grpc.MethodDescriptor.<DynamicMessage, DynamicMessage>newBuilder()
            .setType(streams ? MethodType.BIDI_STREAMING : MethodType.UNARY)
            .setFullMethodName(
                io.grpc.MethodDescriptor.generateFullMethodName(method.getService().getFullName(), method.getName()))
            .setRequestMarshaller(ProtoUtils.marshaller(DynamicMessage.getDefaultInstance(method.getInputType())))
            .setResponseMarshaller(ProtoUtils.marshaller(DynamicMessage.getDefaultInstance(method.getOutputType())))
            .build();
    CallOptions options = CallOptions.DEFAULT;
    if (call.has("deadline_ms")) {
      options = options.withDeadlineAfter(call.get("deadline_ms").getAsLong(), TimeUnit.MILLISECONDS);
    }
    if (compressed) options = options.withCompression("gzip");

    CompletableFuture<JsonObject> ended = new CompletableFuture<>();
    long started = System.nanoTime();
    JsonArray responses = new JsonArray();
    ClientCall<DynamicMessage, DynamicMessage> open = channel.newCall(description, options);
    open.start(
        new ClientCall.Listener<>() {
          @Override
          public void onMessage(DynamicMessage response) {
            try {
              responses.add(JsonParser.parseString(PRINTER.print(response)));
            } catch (Exception error) {
              ended.completeExceptionally(error);
            }
            open.request(1);
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            JsonObject result = new JsonObject();
            result.add("responses", responses);
            result.addProperty("code", status.getCode().name());
            result.addProperty("details", status.getDescription() == null ? "" : status.getDescription());
            result.addProperty("ms", (System.nanoTime() - started) / 1_000_000);
            ended.complete(result);
          }
        },
        metadata(call));
    open.setMessageCompression(compressed);
    open.request(2);
    for (JsonElement request : requests) open.sendMessage(message(method.getInputType(), request));
    if (call.has("cancel_when")) {
      File file = new File(call.get("cancel_when").getAsString());
      while (!file.exists() && !ended.isDone()) Thread.sleep(5);
      open.cancel("the file is there", null);
    } else {
      open.halfClose();
    }
    return ended;
  }

  private JsonArray results(JsonObject call) throws Exception {
    List<CompletableFuture<JsonObject>> begun = new ArrayList<>();
    List<JsonElement> requests = new ArrayList<>();
    call.getAsJsonArray("requests").forEach(requests::add);
    if (call.get("method").getAsString().equals("ModelStreamInfer")) {
      begun.add(begin(call, requests));
    } else {
      for (JsonElement request : requests) begun.add(begin(call, List.of(request)));
    }
    JsonArray results = new JsonArray();
    for (CompletableFuture<JsonObject> one : begun) results.add(one.get(60, TimeUnit.SECONDS));
    return results;
  }

  public static void main(String[] arguments) throws Exception {
    JsonObject input =
        JsonParser.parseReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).getAsJsonObject();
    NettyChannelBuilder builder =
        NettyChannelBuilder.forTarget(input.get("address").getAsString()).maxInboundMessageSize(Integer.MAX_VALUE);
    if (input.has("ca")) {
      builder.sslContext(GrpcSslContexts.forClient().trustManager(new File(input.get("ca").getAsString())).build());
    } else {
      builder.usePlaintext();
    }
    if (input.has("keepalive_ms")) {
      builder.keepAliveTime(input.get("keepalive_ms").getAsLong(), TimeUnit.MILLISECONDS);
    }
    ManagedChannel channel = builder.build();
    Client client =
        new Client(channel, descriptors(input.get("descriptors").getAsString()), input.has("compressed"));
    JsonArray results = new JsonArray();
    for (JsonElement call : input.getAsJsonArray("calls")) results.add(client.results(call.getAsJsonObject()));
    channel.shutdownNow();
    System.out.write(new Gson().toJson(results).getBytes(StandardCharsets.UTF_8));
    System.out.flush();
  }
}
