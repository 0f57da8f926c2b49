// The HTTP client of the facilitator: strict about redirects, sizes and answers. On a job's way: pay → verify, and settle.
import type { FacilitatorClient as X402FacilitatorClient } from "@x402/core/server";
import type { PaymentPayload, PaymentRequirements, SettleResponse, SupportedResponse, VerifyResponse } from "@x402/core/types";
import * as z from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { isJsonObject, readJson } from "../../protocol/text.ts";
import { boundedText } from "../chain/json-rpc.ts";
import { withSignal } from "../deadline.ts";
import type { SettleReply } from "./settle-table.ts";

/** A short text of an answer: printable characters only, and at most 200. */
const Word = z.string().transform((text) => text.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 200));

/** The answer to verify: valid, with the payer; or invalid, with the reason. Anything else is no answer. */
const VerifyAnswer = z.discriminatedUnion("isValid", [
  z.object({ isValid: z.literal(true), payer: Word.exactOptional() }),
  z.object({ isValid: z.literal(false), payer: Word.exactOptional(), invalidReason: Word.exactOptional() }),
]);

/** The answer to settle, as far as it is of any use; what it means, settle-table.ts says. */
const SettleAnswer = z.object({
  success: z.boolean(),
  errorReason: Word.default(""),
  payer: Word.exactOptional(),
  transaction: Word.default(""),
  amount: Word.exactOptional(),
});

/** The answer to supported: the kinds of payment, and the addresses that it signs with, by CAIP-2 id or family (`solana:*`). */
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

/** Thrown if the facilitator gave no usable answer: it is not known whether money moved. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly reason: "timeout" | "unreachable" | "redirected" | "server_error" | "invalid_response";
  readonly status: SettleReply["status"];

  constructor(reason: NoAnswer["reason"], status: NoAnswer["status"], options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
    this.status = status;
  }
}

/**
 * A client as @x402/core has one, with stricter requests. It follows no redirect (theirs of version 2.27 does), reads an answer up to a bound, accepts it only
 * if status and body agree (2.27 ignores `success` in the body of a 4xx), and never asks twice (2.27 sleeps up to a minute for `/supported`). All else is a
 * {@link NoAnswer}. Of theirs nothing would be left but two fields, and with them the bundle would have a second version of zod.
 */
export class FacilitatorClient implements X402FacilitatorClient {
  readonly #url: string;
  readonly #timeoutMs: number;
  readonly #authorization: string | null;

  /** `authorization` is sent with every request to the facilitator, and nowhere else: no redirect is followed. */
  constructor({ url, timeoutMs }: { url: string; timeoutMs: number }, authorization: string | null) {
    this.#url = url.replace(/\/+$/, "");
    this.#timeoutMs = timeoutMs;
    this.#authorization = authorization;
  }

  /** @throws {NoAnswer} */
  async verify(paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements): Promise<VerifyResponse> {
    const { ok, status, json } = await this.#ask("verify", { paymentPayload, paymentRequirements });
    const answer = VerifyAnswer.safeParse(json);
    if (!answer.success || (answer.data.isValid && !ok)) throw new NoAnswer("invalid_response", status);
    return answer.data;
  }

  /** The answer with its HTTP status; what it means, settle-table.ts says. @throws {NoAnswer} */
  async settle(paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements): Promise<SettleResponse & { status: number }> {
    const { status, json } = await this.#ask("settle", { paymentPayload, paymentRequirements });
    const answer = SettleAnswer.safeParse(json);
    if (!answer.success) throw new NoAnswer("invalid_response", status);
    // The network is ours. Some facilitators answer with the short names of version 1.
    return { ...answer.data, network: paymentRequirements.network, status };
  }

  /** @throws {NoAnswer} */
  async getSupported(): Promise<SupportedResponse> {
    const { ok, status, json } = await this.#ask("supported", null);
    const answer = SupportedAnswer.safeParse(json);
    if (!answer.success || !ok) throw new NoAnswer("invalid_response", status);
    return answer.data;
  }

  async #ask(
    operation: string,
    question: { paymentPayload: PaymentPayload; paymentRequirements: PaymentRequirements } | null,
  ): Promise<{ ok: boolean; status: number; json: unknown }> {
    return await withSignal(this.#timeoutMs, async (signal) => {
      try {
        const response = await fetch(`${this.#url}/${operation}`, {
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
        if (status >= 300 && status < 400) throw new NoAnswer("redirected", status);
        if (status >= 500) throw new NoAnswer("server_error", status);
        return { ok: response.ok, status, json: await readAnswer(response) };
      } catch (error) {
        if (error instanceof NoAnswer) throw error;
        throw signal.aborted ? new NoAnswer("timeout", "timeout", { cause: error }) : new NoAnswer("unreachable", "cut", { cause: error });
      }
    });
  }
}

async function readAnswer(response: Response): Promise<unknown> {
  const text = await boundedText(response, LIMITS.facilitatorAnswerBytes);
  if (text === null) throw new NoAnswer("invalid_response", response.status);
  const json = readJson(text);
  if (!json.ok || !isJsonObject(json.value)) throw new NoAnswer("invalid_response", response.status);
  // Some facilitators write null for a missing member.
  return Object.fromEntries(Object.entries(json.value).filter(([, member]) => member !== null));
}
