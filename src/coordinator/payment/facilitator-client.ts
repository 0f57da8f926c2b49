import { LIMITS } from "../../protocol/limits.ts";
import { type FacilitatorConfig, HTTPFacilitatorClient } from "@x402/core/http";
import type { PaymentPayload, PaymentRequirements, SettleResponse, SupportedResponse, VerifyResponse } from "@x402/core/types";
import * as z from "zod";
import { isJsonObject, readJson } from "../../protocol/text.ts";
import { boundedText } from "../chain/json-rpc.ts";

/** What an answer says of itself: printed, and only so much of it. */
const Word = z.string().transform((text) => text.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 200));
/** Never told on: it can quote the facilitator's own node. */
const Message = z.string().exactOptional();
const SomeWord = Word.pipe(z.string().min(1));

/** Yes, and by whom; or no, and why. Anything else is no answer. */
const VerifyAnswer = z.discriminatedUnion("isValid", [
  z.object({ isValid: z.literal(true), payer: Word.exactOptional() }),
  z.object({ isValid: z.literal(false), payer: Word.exactOptional(), invalidReason: Word.exactOptional(), invalidMessage: Message }),
]);

/** Settled, and by which transaction; or refused, and why. Anything else is no answer. */
const SettleAnswer = z.discriminatedUnion("success", [
  z.object({ success: z.literal(true), payer: Word.exactOptional(), transaction: SomeWord, amount: Word.exactOptional() }),
  z.object({ success: z.literal(false), errorReason: SomeWord, errorMessage: Message, payer: Word.exactOptional(), transaction: Word.default("") }),
]);

/** What a facilitator can do, and the addresses that it signs with, by CAIP-2 id or family (`solana:*`). */
const SupportedAnswer = z.object({
  kinds: z.array(
    z.object({
      x402Version: z.number(),
      scheme: z.string(),
      network: z.templateLiteral([z.string(), ":", z.string()]),
      extra: z.record(z.string(), z.unknown()).exactOptional(),
    }),
  ),
  extensions: z.array(z.string()).default([]),
  signers: z.record(z.string(), z.array(z.string())).default({}),
});

/** The facilitator gave no answer that says anything about the money. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly reason: "timeout" | "unreachable" | "redirected" | "server_error" | "nonsense";

  constructor(reason: NoAnswer["reason"], options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
  }
}

/**
 * The library's client with its questions asked more strictly: no redirect is followed (2.27 always does), an answer is read up to a bound and
 * believed only when its status and its body agree (2.27 drops `success` from the body of a 4xx), nothing is asked twice (2.27 sleeps up to a minute
 * for `/supported`), and all else is {@link NoAnswer}.
 */
export class FacilitatorClient extends HTTPFacilitatorClient {
  readonly #authorization: string | null;

  /** `authorization` goes into every question, and nowhere else: no redirect is followed with it. */
  constructor(config: FacilitatorConfig, authorization: string | null) {
    super(config);
    this.#authorization = authorization;
  }

  /** @throws {NoAnswer} */
  override async verify(paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements): Promise<VerifyResponse> {
    const { ok, json } = await this.#ask("verify", { paymentPayload, paymentRequirements });
    const answer = VerifyAnswer.safeParse(json);
    if (!answer.success || (answer.data.isValid && !ok)) throw new NoAnswer("nonsense");
    return answer.data;
  }

  /** @throws {NoAnswer} */
  override async settle(paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements): Promise<SettleResponse> {
    const { ok, json } = await this.#ask("settle", { paymentPayload, paymentRequirements });
    const answer = SettleAnswer.safeParse(json);
    if (!answer.success || (answer.data.success && !ok)) throw new NoAnswer("nonsense");
    // The network is ours, whatever it says: some answer with the short names of version 1.
    return { ...answer.data, network: paymentRequirements.network };
  }

  /** @throws {NoAnswer} */
  override async getSupported(): Promise<SupportedResponse> {
    const { ok, json } = await this.#ask("supported", null);
    const answer = SupportedAnswer.safeParse(json);
    if (!answer.success || !ok) throw new NoAnswer("nonsense");
    return answer.data;
  }

  async #ask(
    operation: string,
    question: { paymentPayload: PaymentPayload; paymentRequirements: PaymentRequirements } | null,
  ): Promise<{ ok: boolean; json: unknown }> {
    // Not AbortSignal.timeout: its timer runs on after the answer, and keeps the hub awake.
    const deadline = new AbortController();
    const { signal } = deadline;
    const timer = setTimeout(() => deadline.abort(), this.timeoutMs);
    try {
      const response = await fetch(`${this.url}/${operation}`, {
        method: question === null ? "GET" : "POST",
        headers: {
          "Content-Type": "application/json",
          Accept: "application/json",
          ...(this.#authorization !== null && { Authorization: this.#authorization }),
        },
        ...(question !== null && { body: JSON.stringify({ x402Version: question.paymentPayload.x402Version, ...question }) }),
        redirect: "manual",
        signal,
      });
      const { status } = response;
      if (status >= 300 && status < 400) throw new NoAnswer("redirected");
      if (status >= 500) throw new NoAnswer("server_error");
      return { ok: response.ok, json: await readAnswer(response) };
    } catch (error) {
      if (error instanceof NoAnswer) throw error;
      throw new NoAnswer(signal.aborted ? "timeout" : "unreachable", { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

async function readAnswer(response: Response): Promise<unknown> {
  const text = await boundedText(response, LIMITS.facilitatorAnswerBytes);
  if (text === null) throw new NoAnswer("nonsense");
  const json = readJson(text);
  if (!json.ok || !isJsonObject(json.value)) throw new NoAnswer("nonsense");
  // Some write null for what is not there.
  return Object.fromEntries(Object.entries(json.value).filter(([, member]) => member !== null));
}
