import type { JobType } from "../../protocol/job.ts";

/** What a worker announces about itself [WS3]. */
export type Profile = {
  providerType: "DESKTOP" | "MOBILE";
  capabilities: readonly JobType[];
  models: readonly string[];
  /** Tokens that prompt and answer may have together, where the runtime tells. */
  context?: number;
  engine?: string;
  name?: string;
  version?: string;
};

/** What a `register` frame carries besides the profile. */
export type Registering = {
  publicKey: string;
  profile: Profile;
  signature?: string;
  /** Left out when a registered worker announces a change: then its lease stays as it is. */
  resume?: readonly { job_id: string; attempt: number }[];
};

/** The text of a `register` frame. Texts longer than the coordinator takes are cut, never refused for. */
export function registerFrame({ publicKey, profile, signature, resume }: Registering): string {
  const { providerType, capabilities, models, context, engine, name, version } = profile;
  return JSON.stringify({
    type: "register",
    provider_pubkey: publicKey,
    provider_type: providerType,
    capabilities,
    models: models.slice(0, 64).map((model) => model.slice(0, 256)),
    context,
    engine: engine?.slice(0, 128),
    name: name?.slice(0, 128),
    version: version?.slice(0, 128),
    features: ["ack"],
    signature,
    resume: resume?.slice(0, 64),
  });
}
