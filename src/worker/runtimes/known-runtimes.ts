/** A runtime that may run on this machine. */
export type Candidate = {
  name: string;
  /** With its version path and without a last slash. */
  baseUrl: string;
  /** Path from the origin that answers 2xx when the runtime is ready; the model list alone tells it if there is none. */
  healthPath?: string;
};

/** Where local runtimes listen by default, in the order of preference. Always 127.0.0.1: `localhost` may be ::1 only. */
export const KNOWN_RUNTIMES: readonly Candidate[] = [
  { name: "ollama", baseUrl: "http://127.0.0.1:11434/v1", healthPath: "/api/version" },
  { name: "llama.cpp", baseUrl: "http://127.0.0.1:8080/v1", healthPath: "/health" },
  { name: "lm-studio", baseUrl: "http://127.0.0.1:1234/v1" },
  { name: "vllm", baseUrl: "http://127.0.0.1:8000/v1", healthPath: "/health" },
  { name: "jan", baseUrl: "http://127.0.0.1:1337/v1" },
  { name: "docker-model-runner", baseUrl: "http://127.0.0.1:12434/engines/v1" },
  { name: "koboldcpp", baseUrl: "http://127.0.0.1:5001/v1" },
];

const OWNER_NAMES: Readonly<Record<string, string>> = {
  library: "ollama",
  llamacpp: "llama.cpp",
  organization_owner: "lm-studio",
  vllm: "vllm",
  "compute-router": "embedded",
};

/** The runtime that writes this `owned_by` into its model list, whatever port it has. */
export function runtimeOfOwner(ownedBy: string | undefined): string | undefined {
  return ownedBy === undefined ? undefined : OWNER_NAMES[ownedBy];
}
