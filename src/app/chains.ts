import type { Hash } from '../chain/block.ts'
import { eip1193Transport, httpTransport } from '../chain/http.ts'
import type { RpcTransport } from '../chain/rpc.ts'
import { createEvmSource, type EvmSource } from '../collect/evm.ts'
import type { ChainConfig, Config, Eip1193Provider } from '../config.ts'
import { identify } from '../dedup/identity.ts'
import type { CompiledWatcher } from '../handle/watch.ts'
import { wait } from '../util/op.ts'
import type { World } from '../util/world.ts'
import type { Logger } from './types.ts'

/** A URL, a viem transport, or anything with EIP-1193's `request`. Its label is safe to print; its URL is not. */
export function transportOf(
  entry: ChainConfig['rpc'][number],
  label: string,
  chain: ChainConfig,
  world: World,
): RpcTransport {
  if (typeof entry === 'string') return httpTransport(entry, { label, timeoutMs: chain.timeoutMs, world })
  if ('send' in entry && 'label' in entry) return entry as unknown as RpcTransport
  // Tidemark repeats a request itself, and knows when it may not.
  const provider = typeof entry === 'function' && !('request' in entry) ? entry({ retryCount: 0 }) : entry
  return eip1193Transport(provider as Eip1193Provider, { label, timeoutMs: chain.timeoutMs, world })
}

function openChain(
  name: string,
  config: Config,
  watchers: readonly CompiledWatcher[],
  world: World,
  logger: Logger,
): EvmSource {
  const chain = config.chains[name] as ChainConfig
  return createEvmSource({
    chainId: chain.id,
    transports: chain.rpc.map((entry, i) => transportOf(entry, `${name}.rpc[${i}]`, chain, world)),
    finality: chain.finality,
    minDepth: chain.minDepth,
    pollMs: chain.pollMs,
    maxRange: chain.maxRange,
    undoLimitBlocks: config.undoLimitBlocks,
    world,
    filters: watchers.filter((watcher) => watcher.chainName === name).flatMap((watcher) => watcher.filters),
    identify,
    knownGenesis: () => config.store.read((tx) => wait(tx.cursors.genesis(chain.id))),
    onSetAside: (node, error) => logger.log('error', 'an endpoint is not used', { chain: name, node, error }),
  })
}

/** One source for each chain that a watcher runs on. Nothing is asked yet. */
export function openChains(
  config: Config,
  watchers: readonly CompiledWatcher[],
  world: World,
  logger: Logger,
): ReadonlyMap<string, EvmSource> {
  const names = new Set(watchers.map((watcher) => watcher.chainName))
  return new Map([...names].map((name) => [name, openChain(name, config, watchers, world, logger)]))
}

/** Keeps block 0's hash of a chain the first time it is seen: another chain behind the same URL is recognised by it. */
export async function keepGenesis(config: Config, chainId: number, genesis: Hash | null): Promise<void> {
  if (genesis === null) return
  await config.store.transact(function* (tx) {
    if ((yield* wait(tx.cursors.genesis(chainId))) === null) yield* wait(tx.cursors.setGenesis(chainId, genesis))
  })
}
