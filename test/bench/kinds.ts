// What the CPU of workerd is used for: samples by Linux perf, sorted by the names of the functions.
const KERNEL = "kernel: sockets, disk, threads";
const RUNTIME = "workerd: event loop, HTTP, RPCs, sockets";
const CRYPTO = "signatures and hashes";
const SQLITE = "SQLite";
const MEMORY = "malloc, and copies of memory";
const GARBAGE = "garbage collection";
const COMPILER = "V8: compiling";
const SCRIPT = "V8: JavaScript, its built-in functions and its runtime";

/** The kinds of functions, in the order in which they are printed. */
export const KINDS = [KERNEL, RUNTIME, CRYPTO, SQLITE, MEMORY, GARBAGE, COMPILER, SCRIPT] as const;
export type Kind = (typeof KINDS)[number];

type Rules = readonly (readonly [RegExp, Kind])[];

/** The names of C++ and Rust have `::` in them. The first rule that fits counts. */
const QUALIFIED: Rules = [
  [/^\(anonymous namespace\)::(?:fe|ge|sc|x?ed?25519)|^bssl::/, CRYPTO],
  [/^tcmalloc::/, MEMORY],
  [
    /Scaveng|MarkCompact|Marking|Sweep|Evacuat|Global(?:Handle|ize)|TracedHandle|Remembered|WriteBarrier|Worklist|Ephemeron|^cppgc|Heap(?:Base|Visitor)?::|ExternalEntity/,
    GARBAGE,
  ],
  [
    /v8::internal::(?:compiler|maglev|baseline|interpreter|wasm)::|Compil|::Parse(?:r|Info)|::Scanner|::Zone|Feedback|TieringManager|Deoptimiz|Translat/,
    COMPILER,
  ],
  [/^v8::|^icu/, SCRIPT],
  [/./, RUNTIME],
];

/** The names of C, and what V8 and bridges to Rust call their own. What is left is SQLite: it is all C, and most of its functions have no prefix. */
const UNQUALIFIED: Rules = [
  [/^Builtins_|^u(?:cnv|str|_)|_7\d$|^\[unknown\]$/, SCRIPT],
  [/^(?:EVP|ED25519|HMAC|OPENSSL|CRYPTO|SHA\d|sha\d|x25519|curve25519|ERR|RAND|BCM)/, CRYPTO],
  [/^TCMalloc|^operator |^_?_?(?:mem|str)[a-z]+/, MEMORY],
  [/\$|^__dynamic_cast$|^_(?:Z|R)|^rust_/, RUNTIME],
  [/./, SQLITE],
];

/** The kind of a function. `object` is the file that it is in, as perf prints it. */
export function kindOf(name: string, object: string): Kind {
  if (/^\[(?:kernel|guest|vdso)|\.ko/.test(object)) return KERNEL;
  // What V8 has compiled is in no file.
  if (/^\/\/anon|\/perf-\d+\.map$|^\[/.test(object)) return SCRIPT;
  if (/\/lib[\w+-]+\.so/.test(object)) return MEMORY;
  return (name.includes("::") ? QUALIFIED : UNQUALIFIED).find(([rule]) => rule.test(name))?.[1] ?? SCRIPT;
}

/** The share of each kind in samples, as `perf script -F ip,sym,dso` prints them. */
export function shares(script: string): Record<Kind, number> {
  const samples = [...script.matchAll(/^\s*[0-9a-f]+ (.*) \((.*)\)$/gm)];
  const counted = Object.groupBy(samples, ([, name = "", object = ""]) => kindOf(name, object));
  const share = (kind: Kind) => (counted[kind]?.length ?? 0) / samples.length;
  return Object.fromEntries(KINDS.map((kind) => [kind, share(kind)])) as Record<Kind, number>;
}
