import { keccak_256 } from '@noble/hashes/sha3.js'
import { sha256 as sha256Pure } from '@noble/hashes/sha2.js'

interface NodeCrypto {
  createHash(name: 'sha256'): { update(bytes: Uint8Array): { digest(): Uint8Array } }
}

// Node's own SHA-256 is about eight times faster; other runtimes take the pure one. Both give the same bytes.
const proc = (globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }).process
const native = proc?.getBuiltinModule?.('node:crypto') as NodeCrypto | undefined

export function sha256(bytes: Uint8Array): Uint8Array {
  return native ? new Uint8Array(native.createHash('sha256').update(bytes).digest()) : sha256Pure(bytes)
}

/** Keccak-256, the chain's own hash: blooms, event signatures. */
export function keccak256(bytes: Uint8Array): Uint8Array {
  return keccak_256(bytes)
}
