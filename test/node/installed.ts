import { findAnvil } from './anvil.ts'

export const MISSING = 'anvil is not installed for this platform: nothing was shown on a real node.'

/** The node's program; null where there is none, which is said aloud. In CI a test fails then. */
export const program = findAnvil()
if (!program) console.warn(`\n!!! THE TESTS ON A REAL NODE DID NOT RUN: ${MISSING}\n`)

/** The seed of a story, its reorgs and its kills; NODE_SEED repeats it. The moments of a run are never the same twice. */
export const seed = process.env.NODE_SEED ?? String(Math.floor(Math.random() * 1_000_000_000))
