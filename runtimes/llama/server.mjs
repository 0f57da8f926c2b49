// A small OpenAI-compatible server on llama.cpp, for loopback only.
// node server.mjs --model file.gguf [--port 0] [--threads 1] [--managed]
// Prints one line of JSON when it can answer: {"ready":true,"url":…,"model":…,"context":…}, or {"ready":false,"error":…}.
// --managed: a parent holds our stdin. We end when it closes, however the parent died and also if we hang, and leave Ctrl-C to the parent.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { InvalidRequest, parseChatRequest } from "./chat-request.mjs";

const MAX_BODY_BYTES = 4 * 1024 * 1024;
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/;

const { values: options } = parseArgs({
  options: {
    model: { type: "string", default: fileURLToPath(new URL("models/tiny-chat-q8_0.gguf", import.meta.url)) },
    port: { type: "string", default: "0" },
    threads: { type: "string", default: "1" },
    managed: { type: "boolean", default: false },
  },
});

let engine;
let draining = false;
const stop = new AbortController();

const server = createServer((request, response) => {
  // The connection of an answered request would stay open for the next one, and the drain would wait for it.
  response.once("close", () => setImmediate(() => draining && server.closeIdleConnections()));
  handle(request, response).catch((error) => sendError(response, error));
});

async function handle(request, response) {
  // A web page can reach loopback under a name of its own (DNS rebinding); a real client names the loopback address.
  if (!LOOPBACK_HOST.test(request.headers.host ?? "")) return send(response, 403, errorBody("forbidden", "loopback only"));
  const path = new URL(request.url ?? "/", "http://127.0.0.1").pathname;
  switch (`${request.method} ${path}`) {
    case "GET /health":
      return engine ? send(response, 200, { status: "ok", ...engine.load() }) : send(response, 503, loading());
    case "GET /v1/models":
      if (!engine) return send(response, 503, loading());
      return send(response, 200, {
        object: "list",
        data: [{ id: engine.model, object: "model", owned_by: "compute-router", meta: { n_ctx_train: engine.contextSize } }],
      });
    case "POST /v1/chat/completions":
      return engine ? chat(request, response) : send(response, 503, loading());
    default:
      return send(response, 404, errorBody("not_found", `no ${request.method} ${path} here`));
  }
}

async function chat(request, response) {
  if (!/^application\/json\b/i.test(request.headers["content-type"] ?? "")) throw new InvalidRequest("content-type must be application/json");
  const { history, stream, includeUsage, maxTokens, sampling, format } = parseChatRequest(await readJson(request));
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const signal = AbortSignal.any([gone.signal, stop.signal]);
  const head = {
    id: `chatcmpl-${randomUUID()}`,
    object: stream ? "chat.completion.chunk" : "chat.completion",
    created: Math.floor(Date.now() / 1000),
    model: engine.model,
  };
  const event = (data) => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write(`data: ${typeof data === "string" ? data : JSON.stringify({ ...head, ...data })}\n\n`);
  };
  const delta = (part) => event({ choices: [{ index: 0, delta: part, finish_reason: null }] });
  let reasoning = "";
  const answer = await engine.chat({
    history,
    format,
    maxTokens,
    signal,
    ...sampling,
    onText: (text) => stream && text && delta({ content: text }),
    onReasoning: (text) => (stream && text ? delta({ reasoning_content: text }) : (reasoning += text)),
  });
  signal.throwIfAborted();
  const usage = { prompt_tokens: answer.promptTokens, completion_tokens: answer.completionTokens, total_tokens: answer.promptTokens + answer.completionTokens };
  if (!stream) {
    const message = { role: "assistant", content: answer.text, ...(reasoning && { reasoning_content: reasoning }) };
    return send(response, 200, { ...head, choices: [{ index: 0, message, finish_reason: answer.finishReason }], usage });
  }
  event({ choices: [{ index: 0, delta: {}, finish_reason: answer.finishReason }] });
  if (includeUsage) event({ choices: [], usage });
  event("[DONE]");
  response.end();
}

async function readJson(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size <= MAX_BODY_BYTES) parts.push(part);
  }
  // Read to its end first: a client that is still sending would not hear the refusal.
  if (size > MAX_BODY_BYTES) throw new InvalidRequest(`the body is larger than ${MAX_BODY_BYTES} bytes`);
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } catch {
    throw new InvalidRequest("the body is not JSON");
  }
}

const errorBody = (code, message) => ({ error: { message, type: code, code } });
const loading = () => errorBody("unavailable_error", "Loading model");

function send(response, status, body) {
  if (!response.destroyed) response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function sendError(response, error) {
  if (response.destroyed || response.writableEnded) return;
  const code = error.code === "invalid_request_error" || error.code === "context_length_exceeded" ? error.code : "server_error";
  const body = errorBody(code, stop.signal.aborted ? "shutting down" : error.message);
  if (!response.headersSent) return send(response, code === "server_error" ? 500 : 400, body);
  response.end(`data: ${JSON.stringify(body)}\n\n`);
}

/** SIGTERM: finish what is running, then end. */
function drain() {
  if (draining) {
    void end();
    return;
  }
  draining = true;
  server.close(() => void end());
  server.closeIdleConnections();
}

/** End now: stop generating, free the model. The timer is for native code that does not come back. */
async function end(code = 0) {
  stop.abort();
  setTimeout(() => process.exit(code), 2000).unref();
  server.closeAllConnections();
  await engine?.close().catch(() => {});
  process.exit(code);
}

process.on("SIGTERM", drain);
if (options.managed) {
  process.on("SIGINT", () => {});
  new Worker(new URL("parent-watch.mjs", import.meta.url)).on("error", () => end()).on("message", () => end());
} else {
  process.on("SIGINT", drain);
}

server.listen(Number(options.port), "127.0.0.1", async () => {
  try {
    const { loadEngine } = await import("./engine.mjs");
    engine = await loadEngine({ modelPath: options.model, threads: Number(options.threads) });
    const url = `http://127.0.0.1:${server.address().port}/v1`;
    process.stdout.write(`${JSON.stringify({ ready: true, url, model: engine.model, context: engine.contextSize })}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ ready: false, error: error.message })}\n`, () => end(1));
  }
});
server.on("error", (error) => {
  process.stdout.write(`${JSON.stringify({ ready: false, error: error.message })}\n`, () => end(1));
});
