import { parseAbi } from "viem";

/** What the lab calls of TestUSDC. */
export const TOKEN_ABI = parseAbi([
  "function name() view returns (string)",
  "function version() view returns (string)",
  "function decimals() view returns (uint8)",
  "function DOMAIN_SEPARATOR() view returns (bytes32)",
  "function totalSupply() view returns (uint256)",
  "function balanceOf(address owner) view returns (uint256)",
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
  "function mint(address to, uint256 value)",
  "function transfer(address to, uint256 value) returns (bool)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
  "function receiveWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
  "function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)",
]);

/** What it tells of payments. */
export const TOKEN_EVENTS = parseAbi([
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
]);

/** The EIP-712 domain of the token, as the real USDC has it. */
export const TOKEN_NAME = "USDC";
/** See TOKEN_NAME. */
export const TOKEN_VERSION = "2";

const AUTHORIZATION = [
  { name: "from", type: "address" },
  { name: "to", type: "address" },
  { name: "value", type: "uint256" },
  { name: "validAfter", type: "uint256" },
  { name: "validBefore", type: "uint256" },
  { name: "nonce", type: "bytes32" },
] as const;

/** The EIP-712 structures of EIP-3009. */
export const TOKEN_TYPES = {
  TransferWithAuthorization: AUTHORIZATION,
  ReceiveWithAuthorization: AUTHORIZATION,
  CancelAuthorization: [
    { name: "authorizer", type: "address" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

/** The EIP-712 domain of one deployment. */
export function tokenDomain(token: `0x${string}`, chainId: number): { name: string; version: string; chainId: number; verifyingContract: `0x${string}` } {
  return { name: TOKEN_NAME, version: TOKEN_VERSION, chainId, verifyingContract: token };
}
