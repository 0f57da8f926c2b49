// A chat as an LLM_INFER payload may carry it: its messages, the options of its answer, and its transcript for workers that know only `prompt` [JB12].
import * as z from "zod";
import { LIMITS } from "./limits.ts";

const role = z.enum(["system", "user", "assistant"]);

export const ChatMessage = z.looseObject({ role, content: z.string().refine((text) => text.isWellFormed(), "must be well-formed Unicode") });
/** One message of a chat. */
export type ChatMessage = z.infer<typeof ChatMessage>;

const between = (min: number, max: number) => {
  const rule = `must be a number from ${min} to ${max}`;
  return z.number(rule).min(min, rule).max(max, rule);
};
const stopText = z.string().min(1, "must not be empty").max(LIMITS.stopChars);

/** The members of an LLM_INFER payload that make it a chat, as in OpenAI's API. Null counts as absent. */
export const CHAT_MEMBERS = {
  messages: z.array(ChatMessage).min(1, "must not be empty").nullish(),
  temperature: between(0, 2).nullish(),
  top_p: between(0, 1).nullish(),
  stop: z
    .union(
      [stopText, z.array(stopText).max(LIMITS.stops)],
      `must be a text, or a list of at most ${LIMITS.stops} texts, of 1 to ${LIMITS.stopChars} characters each`,
    )
    .nullish(),
  seed: z.int("must be a whole number").nullish(),
  presence_penalty: between(-2, 2).nullish(),
  frequency_penalty: between(-2, 2).nullish(),
  response_format: z.looseObject({ type: z.enum(["text", "json_object", "json_schema"]) }).nullish(),
};

const ChatMembers = z.object(CHAT_MEMBERS);
type Members = z.infer<typeof ChatMembers>;
/** The messages and options of a payload that are there. */
export type ChatRequest = { [M in keyof Members]?: NonNullable<Members[M]> };

/** Reads the messages and options of a payload, for the worker. A member of another form counts as absent. Never throws. */
export function readChat(payload: Readonly<Record<string, unknown>>): ChatRequest {
  const read = Object.entries(CHAT_MEMBERS).map(([name, schema]) => [name, schema.safeParse(payload[name]).data] as const);
  return Object.fromEntries(read.filter(([, value]) => value !== undefined && value !== null));
}

const SPEAKER = { system: "System", user: "User", assistant: "Assistant" } as const;

/**
 * The messages as plain text, for a worker that knows only `prompt`. A chat of one user message is that message; a longer one names who speaks, and ends
 * where the assistant's turn begins.
 */
export function transcript(messages: readonly ChatMessage[]): string {
  const [only] = messages;
  if (messages.length === 1 && only?.role === "user") return only.content;
  return [...messages.map(({ role: speaker, content }) => `${SPEAKER[speaker]}: ${content}`), `${SPEAKER.assistant}:`].join("\n\n");
}
