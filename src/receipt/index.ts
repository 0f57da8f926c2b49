export * from "./bytes.ts";
export * from "./canonical.ts";
export * from "./ed25519.ts";
export * from "./fingerprint.ts";
export * from "./output-hash.ts";
export * from "./sign.ts";
export * from "./verify.ts";
