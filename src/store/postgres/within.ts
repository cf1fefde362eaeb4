import type { World } from '../../util/world.ts'

/**
 * The answer, or undefined when it has not come within `ms`. A simulated clock says nothing about how long a real server
 * takes: there the answer is waited for.
 */
export async function within<T>(world: World, ms: number, answer: Promise<T>): Promise<T | undefined> {
  if (world.simulated) return answer
  const stop = new AbortController()
  try {
    return await Promise.race([answer, world.sleep(ms, stop.signal).then(() => undefined)])
  } finally {
    stop.abort()
  }
}
