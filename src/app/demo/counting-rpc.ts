import type { RpcCall } from '../../chain/rpc.ts'
import { FakeRpc } from '../../testkit/fake-rpc.ts'
import type { WireOutcome } from '../../testkit/wire-faults.ts'
import { TOKEN } from './watchers.ts'

function isDelivery(log: unknown): boolean {
  const { address, topics } = (log ?? {}) as { address?: unknown; topics?: unknown }
  return address === TOKEN && Array.isArray(topics) && topics.length === 3
}

/** The demo's node: it counts how often it hands out an event of the token. */
export class CountingRpc extends FakeRpc {
  deliveries = 0

  override handle(calls: readonly RpcCall[]): WireOutcome {
    const outcome = super.handle(calls)
    if (outcome.kind !== 'answers') return outcome
    for (const answer of outcome.answers) {
      if (answer.ok && Array.isArray(answer.result)) this.deliveries += answer.result.filter(isDelivery).length
    }
    return outcome
  }
}
