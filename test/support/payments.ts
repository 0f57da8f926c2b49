import type { Offer } from "../../src/coordinator/payment/terms.ts";

/** What the fast endpoint of an EVM instance asks for. */
export const evmOffer = (): Offer => ({
  instance: "evm",
  network: "eip155:10143",
  policy: "FAST",
  payTo: "0x99B9e5b1ED388051ce91BA3140147Ea1864564bC",
  token: { address: "0x0b0860C158E97D04aF1196B192F57A9767D04017", extra: { name: "USDC", version: "2" } },
  resource: "https://r.example/v1/jobs/commit/fast",
});

/** A fee payer of the facilitator that {@link TRANSACTION} was made for. */
export const FEE_PAYER = "9bsGoXHMXo4RZWxTSZYp4nr9xcdFoijpTk8FFBwXyMze";

/** What the fast endpoint of an SVM instance asks for. */
export const svmOffer = (): Offer => ({
  instance: "svm",
  network: "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
  policy: "FAST",
  payTo: "3eUGXu7U5LZPevkSXfvVyejdobFp8Evo1pqobeN4LRMb",
  token: { address: "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU", extra: { feePayer: FEE_PAYER } },
  resource: "https://r.example/v1/jobs/commit/fast",
});

/** A payment for {@link svmOffer} as the client of @x402/svm 2.27.0 signs it. */
export const TRANSACTION =
  "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACliAtM81CItbIqypkyHw3wxTtQRYu8sxyw" +
  "BqbMQDKB5QoSsvv8tffJBcwI5F1F/vfRegL6ZR1LVNH8FnzxWqACgAIBBAh/zBYOk1xBYPR53iUJ0377wp+nbYdiZUNUNIIO/Axlvy6uUHceEpiDc182kNAK" +
  "YGWLAG27dnStT33B+J1RAdAZy0XXAorzzewBRvbDkZXUnq4ljxvwWlvyx7ycPUMXJcH8E+X3w41iqtwIS4/Sn15k+NNmf7FfyNkisfsfrwSsxjtELLORIVfx" +
  "OpM9ATQoLQMrX/7NAaLb8bd5BgjfAC6nAwZGb+UhFzL/7K26csOb57yM5bvF9xJrLEObOkAAAAAFSlNamSkhBk0k6HFg2jh8fDW13bySu4HkH6hAQQVEjQbd" +
  "9uHXZaGT2cvhRs7reawctIXtX1s3kTqM9YV+/wCpWBZOGOoPCIttNXi6isDmNigXe6Xop1fXCVrX/46hrt0EBQAFAiBOAAAFAAkDAQAAAAAAAAAHBAIEAwEK" +
  "DBAnAAAAAAAABgYAIDhiYzNjYjhkYTJjMTM4ZWJkY2NhMmJmZjM1NjdmMDQwAA==";

/** Who signed it. */
export const SVM_PAYER = "49DvH3hJdc9kGcTrWBsVDxP54dnZvtHFcwYg42SYTCF2";

/** SHA-256 of its message, as the ledger has it. */
export const SVM_KEY = "c7eb533a09b5e0069003d30a028e88c1d0e06dd71ecd1787b9c3cc84bf9b904a";

/** An authorization for {@link evmOffer} that is good for 300 s from `now` (ms), with a signature of the right shape. Each `nonce` is another payment. */
export const authorization = (now: number, nonce = `0x${"0F".repeat(32)}`) => ({
  signature: `0x${"ab".repeat(64)}1b`,
  authorization: {
    from: "0xC38E3bbC4575c1f5F28908Dd5d8e347c7B055890",
    to: "0x99B9e5b1ED388051ce91BA3140147Ea1864564bC",
    value: "10000",
    validAfter: "0",
    validBefore: String(Math.floor(now / 1_000) + 300),
    nonce,
  },
});

/** A JSON value as a payment header has it. */
export const encode = (value: unknown): string => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64");
