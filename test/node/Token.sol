// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;

/// Emits as many logs as asked for, between 16 accounts. It keeps no balances: only its logs matter here.
contract Token {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    uint256 private round;

    function account(uint256 x) private pure returns (address) {
        return address(uint160(0xa000 + (x % 16)));
    }

    function emitTransfers(uint256 n, uint256 seed, uint256 shift) private {
        for (uint256 i = 0; i < n; i++) {
            uint256 x = uint256(keccak256(abi.encode(seed, i)));
            emit Transfer(account(x), account(x >> 8), 1 + ((x >> 16) + shift) % 1000);
        }
    }

    /// What it emits follows from its arguments alone.
    function burst(uint256 n, uint256 seed) external {
        emitTransfers(n, seed, 0);
    }

    /// What it emits depends on how often it was called before: the same transaction has other logs in another place.
    function drift(uint256 n, uint256 seed) external {
        round += 1;
        emitTransfers(n, seed, round);
    }

    /// The same log again and again: only its number within the transaction tells one from the other.
    function repeat(uint256 n, uint256 seed) external {
        for (uint256 i = 0; i < n; i++) emit Transfer(account(seed), account(seed >> 8), 7);
    }

    /// Logs that nobody follows, but which move the log indexes of those behind them.
    function approve(uint256 n, uint256 seed) external {
        for (uint256 i = 0; i < n; i++) emit Approval(account(seed), account(seed >> 8), i);
    }
}
