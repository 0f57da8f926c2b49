import { SVM_NETWORK, SVM_USDC } from "../svm/chain.ts";

/** What a server wants for a request: one entry of x402 v2's `accepts`. */
export type Requirement = {
  scheme: string;
  network: string;
  amount: string;
  asset: string;
  payTo: string;
  maxTimeoutSeconds: number;
  extra: Record<string, unknown>;
};

/** A 402, read. */
export type Challenge = { requirement: Requirement; resource: unknown; error: unknown };

type Entry = Partial<Requirement> & { maxAmountRequired?: string };
type Wire = { accepts?: Entry[]; resource?: unknown; error?: unknown };

/** Reads the header `PAYMENT-REQUIRED`, as x402 v2 clients do. @throws when it is no challenge */
export function challengeOfHeader(header: string): Challenge {
  return read(JSON.parse(Buffer.from(header, "base64").toString("utf8")) as Wire);
}

/** Reads the body of a 402, as clients do that know no headers. The SVM's has no asset; it is the network's USDC. @throws when it is no challenge */
export function challengeOfBody(body: unknown): Challenge {
  return read(body ?? {});
}

/** Reads a 402 response by its header, or by its body where it has none. @throws when it is no challenge */
export async function challengeOf(response: Response): Promise<Challenge> {
  if (response.status !== 402) throw new Error(`expected a 402, got ${response.status}`);
  const header = response.headers.get("payment-required");
  return header === null ? challengeOfBody(await response.json()) : challengeOfHeader(header);
}

function read({ accepts, resource, error }: Wire): Challenge {
  const [entry] = accepts ?? [];
  const { scheme, network, payTo, maxTimeoutSeconds = 300, extra = {} } = entry ?? {};
  const amount = entry?.amount ?? entry?.maxAmountRequired;
  const asset = entry?.asset ?? (network === SVM_NETWORK ? SVM_USDC : undefined);
  if (scheme === undefined || network === undefined || payTo === undefined || amount === undefined || asset === undefined) {
    throw new Error(`no payment requirement in ${JSON.stringify(accepts)}`);
  }
  return { requirement: { scheme, network, amount, asset, payTo, maxTimeoutSeconds, extra }, resource, error };
}
