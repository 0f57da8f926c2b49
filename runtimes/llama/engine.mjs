// The engine of the embedded llama.cpp: loads a GGUF file and answers chats, one at a time.
import { basename } from "node:path";
import { getLlama, GeneralChatWrapper, JinjaTemplateChatWrapper, LlamaChat, LlamaLogLevel } from "node-llama-cpp";
import { InvalidRequest } from "./chat-request.mjs";

const MAX_CONTEXT_TOKENS = 4096;

/** The prompt leaves no room for an answer in the model's context. */
class ContextExceeded extends Error {
  code = "context_length_exceeded";
}

/**
 * Loads a GGUF file and answers chats on it one at a time, on the CPU.
 * One thread is the default: ggml's threads spin at a barrier, so on a busy machine two can be a hundred times slower than one.
 */
export async function loadEngine({ modelPath, threads = 1 }) {
  const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.disabled, progressLogs: false });
  const model = await llama.loadModel({ modelPath });
  const contextSize = Math.min(model.trainContextSize, MAX_CONTEXT_TOKENS);
  const context = await model.createContext({ contextSize, threads, sequences: 1 });
  const sequence = context.getSequence();
  const template = model.fileInfo.metadata.tokenizer?.chat_template;
  // The file's own template, not a built-in one: a different template gives different tokens and so different answers.
  const chatWrapper = template ? new JinjaTemplateChatWrapper({ template, tokenizer: model.tokenizer }) : new GeneralChatWrapper();
  let last = Promise.resolve();
  let waiting = 0;

  async function answer({ history, format, maxTokens, signal, onText, onReasoning, ...sampling }) {
    signal.throwIfAborted();
    const grammar = await grammarOf(format);
    const prompt = chatWrapper.generateContextState({ chatHistory: [...history, { type: "model", response: [] }] });
    const promptTokens = prompt.contextText.tokenize(model.tokenizer).length;
    const room = contextSize - promptTokens - 1;
    if (room < 1) throw new ContextExceeded(`the prompt has ${promptTokens} tokens, the context of this model has ${contextSize}`);
    // A job must not see, or be timed by, what the previous one left in the cache.
    await sequence.clearHistory();
    const chat = new LlamaChat({ contextSequence: sequence, chatWrapper, autoDisposeSequence: false });
    const before = sequence.tokenMeter.getState();
    try {
      const { response, metadata } = await chat.generateResponse(history, {
        ...sampling,
        ...(grammar && { grammar }),
        maxTokens: Math.min(maxTokens ?? room, room),
        signal,
        stopOnAbortSignal: true,
        onResponseChunk: (chunk) => (chunk.type === "segment" ? onReasoning : onText)?.(chunk.text),
      });
      return {
        text: response,
        finishReason: metadata.stopReason === "maxTokens" ? "length" : "stop",
        promptTokens,
        completionTokens: sequence.tokenMeter.diff(before).usedOutputTokens,
      };
    } finally {
      chat.dispose({ disposeSequence: false });
    }
  }

  /** The grammar that keeps an answer in its form: null for text, "json" for any JSON, or a JSON schema. */
  async function grammarOf(format) {
    if (format === null) return null;
    if (format === "json") return llama.getGrammarFor("json");
    try {
      return await llama.createGrammarForJsonSchema(format);
    } catch (error) {
      throw new InvalidRequest(`response_format.json_schema: ${error.message}`);
    }
  }

  return {
    model: basename(modelPath).replace(/\.gguf$/i, ""),
    contextSize,
    /** Waits for its turn, then answers. */
    chat(request) {
      waiting += 1;
      const mine = last.then(() => answer(request)).finally(() => (waiting -= 1));
      last = mine.catch(() => {});
      return mine;
    },
    /** Requests that run or wait, and the tokens generated since the start. */
    load() {
      return { requests: waiting, generated_tokens: sequence.tokenMeter.usedOutputTokens };
    },
    async close() {
      await last;
      await llama.dispose();
    },
  };
}
