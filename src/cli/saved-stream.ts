// A streamed answer of OpenAI's API as its reader saved it: the text of the server-sent events, or a list of the chunks. Joined, it has the form of a whole answer [API9].
import { createParser } from "eventsource-parser";
import { isJsonObject, parseJson } from "../protocol/text.ts";
import { ownCommand } from "../worker/node/command-name.ts";
import { untrusted } from "../worker/node/status-line.ts";
import { CliError, EXIT } from "./command.ts";

/** The chunks in the text of server-sent events; undefined if it has none. `curl -N` saves a stream like this. */
export function chunksOf(text: string): unknown[] | undefined {
  const chunks: unknown[] = [];
  const parser = createParser({
    onEvent: ({ data }) => {
      const chunk = parseJson(data);
      if (isJsonObject(chunk)) chunks.push(chunk);
    },
  });
  // An editor may have removed the empty line that ends the last event.
  parser.feed(`${text}\n\n`);
  return chunks.length === 0 ? undefined : chunks;
}

/**
 * The chunks joined to a whole answer. `name` is what they were read from.
 * @throws {CliError} if the stream did not end well
 */
export function joined(chunks: readonly unknown[], name: string): Record<string, unknown> {
  let text = "";
  let finish_reason: unknown;
  let id: unknown;
  let answer: Record<string, unknown> = {};
  for (const chunk of chunks.filter(isJsonObject)) {
    const { error } = chunk;
    if (isJsonObject(error))
      throw new CliError(EXIT.usage, `the stream in ${name} ended with an error (${untrusted(String(error["code"]))}), so it has no receipt${otherwise(id)}`);
    ({ id } = chunk);
    answer = { ...answer, ...chunk };
    const [choice] = Array.isArray(chunk["choices"]) ? chunk["choices"] : [];
    if (!isJsonObject(choice)) continue;
    const piece = isJsonObject(choice["delta"]) ? choice["delta"]["content"] : choice["text"];
    if (typeof piece === "string") text += piece;
    finish_reason = choice["finish_reason"] ?? finish_reason;
  }
  const { compute_router } = answer;
  if (!isJsonObject(compute_router)) throw new CliError(EXIT.usage, `the stream in ${name} has no receipt: its last chunk is missing${otherwise(id)}`);
  // Without `include_usage` the usage of the result comes with the receipt.
  return { ...answer, choices: [{ text, finish_reason }], usage: answer["usage"] ?? compute_router["usage"] };
}

/** What to save instead, for the id of an answer. */
function otherwise(id: unknown): string {
  const [, job] = /^(?:chatcmpl|cmpl)-([0-9a-f-]{36})$/.exec(String(id)) ?? [];
  return job === undefined ? "" : `; save the job: ${ownCommand(`job ${job} --json`)}`;
}
