export * from "./bytes.ts";
export * from "./receipt.ts";
export * from "./ed25519.ts";
export * from "./ed25519.ts";
export * from "./receipt.ts";
export * from "./receipt.ts";
export * from "./receipt.ts";
