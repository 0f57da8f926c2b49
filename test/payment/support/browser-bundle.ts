import { createRequire } from "node:module";

type Build = (options: Record<string, unknown>) => Promise<unknown>;

/** Bundles a module as it is done for browsers, into one file. @throws where anything in it asks for a module of Node's */
export async function bundleForBrowsers(entry: string, outfile: string): Promise<void> {
  // The bundler that comes with wrangler.
  const { build } = createRequire(createRequire(import.meta.url).resolve("wrangler/package.json"))("esbuild") as { build: Build };
  await build({ entryPoints: [entry], outfile, bundle: true, platform: "browser", format: "esm", target: "es2022", logLevel: "silent" });
}
