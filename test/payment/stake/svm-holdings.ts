// A local SVM with token balances of workers, for STAKE_SOURCE=svm.
import {
  findAssociatedTokenPda,
  getBurnInstruction,
  getCreateAssociatedTokenIdempotentInstruction,
  getMintDecoder,
  getMintEncoder,
  getMintToInstruction,
  getTokenDecoder,
  TOKEN_PROGRAM_ADDRESS,
} from "@solana-program/token";
import type { Address, KeyPairSigner } from "@solana/kit";
import { listen, readText, sendJson } from "../loopback.ts";
import { runInstructions, svmSigner } from "../svm/chain.ts";
import { Ledger } from "../svm/ledger.ts";

/** Token-2022. */
const TOKEN_2022_ADDRESS = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb" as Address;
const SOL = 1_000_000_000n;

/** The two staked tokens, one of each token program. */
export const TOKENS = {
  classic: { program: TOKEN_PROGRAM_ADDRESS, decimals: 6, role: "mint" },
  token2022: { program: TOKEN_2022_ADDRESS, decimals: 9, role: "outsider" },
} as const;
export type TokenName = keyof typeof TOKENS;

/** A local SVM where workers hold tokens, behind the one RPC method that `STAKE_SOURCE=svm` calls. */
export type SvmHoldings = {
  readonly rpcUrl: string;
  readonly mint: Record<TokenName, Address>;
  /** Mints so many smallest units to an owner. */
  give(owner: Address, token: TokenName, amount: bigint): Promise<void>;
  /** Burns them, as their owner may. */
  burn(owner: KeyPairSigner, token: TokenName, amount: bigint): Promise<void>;
  stop(): Promise<void>;
};

/** Starts it: litesvm with the real token programs; token accounts are found among those that were made here. @throws when it does not start */
export async function startSvmHoldings(): Promise<SvmHoldings> {
  const ledger = new Ledger({ blockhashTtlMs: 60_000, now: Date.now });
  const bank = await svmSigner("deployer");
  ledger.airdrop(bank.address, 100n * SOL);
  const [classic, token2022] = await Promise.all([svmSigner(TOKENS.classic.role), svmSigner(TOKENS.token2022.role)]);
  const mint = { classic: classic.address, token2022: token2022.address };
  for (const name of ["classic", "token2022"] as const) {
    const { program, decimals } = TOKENS[name];
    const data = new Uint8Array(getMintEncoder().encode({ mintAuthority: bank.address, supply: 0n, decimals, isInitialized: true, freezeAuthority: null }));
    const lamports = ledger.rentFor(data.length);
    ledger.setAccount({ address: mint[name], data, executable: false, lamports, programAddress: program, space: BigInt(data.length) });
  }
  const made = new Set<Address>();

  const account = async (owner: Address, token: TokenName): Promise<Address> => {
    const [address] = await findAssociatedTokenPda({ mint: mint[token], owner, tokenProgram: TOKENS[token].program });
    made.add(address);
    return address;
  };

  /** As Agave does: the program of a mint is looked up, and accounts of that program are told. */
  function accountsOf(owner: string, of: string): unknown {
    const minted = ledger.account(of as Address);
    if (!minted.exists) throw new Error("Invalid param: could not find mint");
    const { decimals } = getMintDecoder().decode(minted.data);
    const value = [...made].flatMap((pubkey) => {
      const found = ledger.account(pubkey);
      if (!found.exists || found.programAddress !== minted.programAddress) return [];
      const { amount, ...held } = getTokenDecoder().decode(found.data);
      if (held.owner !== owner || held.mint !== of) return [];
      const info = { isNative: false, mint: held.mint, owner: held.owner, state: "initialized", tokenAmount: { amount: String(amount), decimals } };
      return [
        { pubkey, account: { owner: found.programAddress, data: { program: "spl-token", parsed: { info, type: "account" }, space: found.data.length } } },
      ];
    });
    return { context: { slot: ledger.slot }, value };
  }

  const rpc = await listen(0, async (request, response) => {
    const { id, method, params } = JSON.parse(await readText(request)) as { id: number; method: string; params: [string, { mint: string }] };
    try {
      if (method !== "getTokenAccountsByOwner") throw new Error(`Method not found: ${method}`);
      sendJson(response, 200, { jsonrpc: "2.0", id, result: accountsOf(params[0], params[1].mint) });
    } catch (error) {
      sendJson(response, 200, { jsonrpc: "2.0", id, error: { code: -32_602, message: error instanceof Error ? error.message : String(error) } });
    }
  });
  return {
    rpcUrl: rpc.url,
    mint,
    async give(owner, token, amount) {
      const config = { programAddress: TOKENS[token].program };
      const ata = await account(owner, token);
      await runInstructions(ledger, bank, [
        getCreateAssociatedTokenIdempotentInstruction({ payer: bank, ata, owner, mint: mint[token], tokenProgram: TOKENS[token].program }),
        getMintToInstruction({ mint: mint[token], token: ata, mintAuthority: bank, amount }, config),
      ]);
    },
    async burn(owner, token, amount) {
      const config = { programAddress: TOKENS[token].program };
      await runInstructions(ledger, bank, [
        getBurnInstruction({ account: await account(owner.address, token), mint: mint[token], authority: owner, amount }, config),
      ]);
    },
    stop: () => rpc.close(),
  };
}
