// Makes the calls that standard input describes, by gRPC's client for Node, and prints what came back.
//
// Reads {"address", "proto", "ca", "compressed", "keepalive_ms", "calls": [...]} and prints a list with the results of
// each of "calls", which follow one another on one channel. A call is {"method", "requests", "metadata", "deadline_ms",
// "cancel_when"}; its messages are JSON as protobuf writes it. Results of a unary method: one for each of the requests,
// which all run at once; of a stream: one. "cancel_when" names a file: the stream is left open, and cancelled when
// there is that file.
"use strict";

const fs = require("fs");
const { json } = require("stream/consumers");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

// Numbers, bytes and absent fields come as protobuf's own JSON has them.
const SHAPE = { keepCase: true, longs: String, bytes: String, enums: String, oneofs: false };

function metadataOf(values) {
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(values ?? {})) {
    metadata.set(name, name.endsWith("-bin") ? Buffer.from(value) : value);
  }
  return metadata;
}

function optionsOf(call) {
  return call.deadline_ms ? { deadline: Date.now() + call.deadline_ms } : {};
}

function statusOf(started, status) {
  return { code: grpc.status[status.code], details: status.details, ms: Date.now() - started };
}

function unary(client, call, request) {
  return new Promise((resolve) => {
    const started = Date.now();
    const result = {};
    client[call.method](request, metadataOf(call.metadata), optionsOf(call), (error, response) => {
      if (!error) result.responses = [response];
    }).on("status", (status) => resolve(Object.assign(result, statusOf(started, status))));
  });
}

function stream(client, call) {
  return new Promise((resolve) => {
    const started = Date.now();
    const result = { responses: [] };
    const open = client[call.method](metadataOf(call.metadata), optionsOf(call));
    let timer;
    open.on("data", (response) => result.responses.push(response));
    // What the call ends with comes as its status, too.
    open.on("error", () => {});
    open.on("status", (status) => {
      clearInterval(timer);
      resolve(Object.assign(result, statusOf(started, status)));
    });
    for (const request of call.requests) open.write(request);
    if (call.cancel_when) {
      timer = setInterval(() => fs.existsSync(call.cancel_when) && open.cancel(), 5);
    } else {
      open.end();
    }
  });
}

async function main() {
  const input = await json(process.stdin);
  const { inference } = grpc.loadPackageDefinition(loader.loadSync(input.proto, SHAPE));
  const { createSsl, createInsecure } = grpc.credentials;
  const credentials = input.ca ? createSsl(fs.readFileSync(input.ca)) : createInsecure();
  const client = new inference.GRPCInferenceService(input.address, credentials, {
    "grpc.max_receive_message_length": -1,
    ...(input.compressed ? { "grpc.default_compression_algorithm": grpc.compressionAlgorithms.gzip } : {}),
    ...(input.keepalive_ms ? { "grpc.keepalive_time_ms": input.keepalive_ms } : {}),
  });
  const results = [];
  for (const call of input.calls) {
    const begun = client[call.method].requestStream
      ? [stream(client, call)]
      : call.requests.map((request) => unary(client, call, request));
    results.push(await Promise.all(begun));
  }
  client.close();
  process.stdout.write(JSON.stringify(results));
}

main();
