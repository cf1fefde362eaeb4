/** The kit with which Tidemark is tested, for the tests of those who use it. No file here is loaded by the main entry. */
export { bloomMayHold, bloomOf } from './bloom.ts'
export { ChainView, type Inclusion, type LogSearch } from './chain-view.ts'
export { type CompareOptions, compareRows, compareTables, type Row } from './compare-rows.ts'
export type { EventArgumentsInput } from './encode.ts'
export { blockLabel, type FakeBlock } from './fake-block.ts'
export {
  FakeChain,
  type FakeChainOptions,
  fakeChain,
  type MineOptions,
  type Reorg,
  type ReorgOptions,
} from './fake-chain.ts'
export {
  addressWord,
  type FakeLog,
  type FakeTransaction,
  type Minable,
  nftTransfer,
  rawLog,
  TRANSFER_TOPIC,
  type TransactionInput,
  testAddress,
  transfer,
  word,
} from './fake-log.ts'
export { FakeNode, fakeNode } from './fake-node.ts'
export { type CallMatcher, FakeRpc, type FakeRpcOptions, fakeRpc, type ScriptedAnswer } from './fake-rpc.ts'
export { type FaultSetting, type FaultSettings, randomFaults } from './fault-plan.ts'
export { type FaultName, faultGroups, faultNames, type WireFaultName } from './faults.ts'
export type { Backend } from './faulty-node.ts'
export type { FinalitySetting } from './finality-pointer.ts'
export {
  eventsOf,
  type OracleBlock,
  type OracleFilter,
  type OracleLog,
  type OracleSource,
  type OracleTransfer,
  readTransfer,
  replay,
  transferBalances,
} from './oracle.ts'
export type { ErrorObject, RefusalStyle } from './provider-errors.ts'
export { Random } from './random.ts'
export { REINCLUDES, type Reinclude } from './reorg-plan.ts'
export type { ReplayFigures } from './replay/faulty-run.ts'
export type { SeedVerdict } from './replay/judge.ts'
export type { ReplayRange, ReplayReport } from './replay/replays.ts'
export type {
  GenerateContext,
  ReplaySetup,
  SeedScope,
  SimulatedChain,
  SimulatedEvent,
  SimulationOptions,
} from './replay/setup.ts'
export type { AskedRange, RequestLog, RequestRecord } from './request-log.ts'
export type { NodeHabits } from './rpc-methods.ts'
export type { FailureKind } from './simulator/failure.ts'
export { type SwarmOptions, swarmOptions, type WatcherKind } from './simulator/options.ts'
export type { Action, PlannedAction } from './simulator/plan.ts'
export { type Shrunk, shrink } from './simulator/shrink.ts'
export { planOf, type SimulateInput, type SimulationReport, simulate } from './simulator/simulate.ts'
export {
  type DbProbe,
  type RegisterTest,
  type StoreContractOptions,
  type StoreUnderTest,
  storeContract,
} from './store-contract.ts'
export { TestWorld, type TestWorldOptions, testWorld } from './test-world.ts'
export {
  type CrashPoint,
  type ReplaySafeOptions,
  type TestWatcherOptions,
  testWatcher,
  type WatcherTest,
} from './watcher-test.ts'
