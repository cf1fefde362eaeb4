export interface Tables {
  balances: { account: string; amount: bigint | string }
}
