import { build } from "esbuild";
import { join } from "node:path";
import { ROOT } from "../../scripts/coordinator-process.ts";
import { temporaryFolder } from "./coordinator.ts";

/** The sources of the entries of the package, so that an example runs with what is tested here, not with what was built before. */
const ENTRIES: Record<string, string> = { "": "sdk/index", "/evm": "sdk/pay/evm", "/svm": "sdk/pay/svm", "/x402": "sdk/pay/x402", "/receipt": "receipt/index" };

/** Bundles a file of examples/ into one file and returns its path. Packages of others are looked up in `modules` too. */
export async function bundleExample(file: string, platform: "node" | "browser" = "node", modules: string[] = []): Promise<string> {
  const outfile = join(temporaryFolder("example"), "bundle.mjs");
  await build({
    entryPoints: [join(ROOT, "examples", file)],
    ...{ outfile, platform, nodePaths: modules },
    ...{ bundle: true, format: "esm", target: "es2022", logLevel: "silent" },
    // Some packages ask for modules of Node by require.
    ...(platform === "node" && { banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" } }),
    plugins: [
      {
        name: "this package",
        setup: (bundler) =>
          bundler.onResolve({ filter: /^compute-router(\/|$)/ }, ({ path }) => ({
            path: join(ROOT, "src", `${ENTRIES[path.slice("compute-router".length)]}.ts`),
          })),
      },
    ],
  });
  return outfile;
}
