// client.js URL KEY: makes the calls that standard input describes by OpenAI's client for Node, and prints the results.
//
// A line is {"method": "chat.completions.create", "arguments": [...]}. Its result is the line {"value"}, for a stream
// {"chunks"}, for a page {"items"}, or {"error"}. A stream that fails has both chunks and an error.
"use strict";

const readline = require("readline");
const { OpenAI } = require("openai");

async function made(client, call) {
  const path = call.method.split(".");
  const name = path.pop();
  const resource = path.reduce((at, key) => at[key], client);
  const result = {};
  try {
    const answer = await resource[name](...call.arguments);
    if (name === "list") {
      result.items = answer.data;
    } else if (call.arguments[0].stream) {
      result.chunks = [];
      for await (const chunk of answer) result.chunks.push(chunk);
    } else {
      result.value = answer;
    }
  } catch (error) {
    // The object is that of the server's answer.
    result.error = { name: error.constructor.name, status: error.status, object: error.error ?? String(error) };
  }
  return result;
}

async function main() {
  const [baseURL, apiKey] = process.argv.slice(2);
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 60_000 });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(JSON.stringify(await made(client, JSON.parse(line))) + "\n");
  }
}

main();
