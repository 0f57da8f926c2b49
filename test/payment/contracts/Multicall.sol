// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title The two reading calls of Multicall3 that clients make, with its selectors and layouts.
/// @notice Put at Multicall3's usual address of a local chain. Real chains have the real one there.
contract Multicall {
    struct Call {
        address target;
        bytes callData;
    }

    struct Call3 {
        address target;
        bool allowFailure;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    function tryAggregate(bool requireSuccess, Call[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            results[i] = _call(calls[i].target, calls[i].callData, !requireSuccess);
        }
    }

    function aggregate3(Call3[] calldata calls) external payable returns (Result[] memory results) {
        results = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            results[i] = _call(calls[i].target, calls[i].callData, calls[i].allowFailure);
        }
    }

    function _call(address target, bytes calldata callData, bool allowFailure) private returns (Result memory result) {
        (result.success, result.returnData) = target.call(callData);
        require(result.success || allowFailure, "Multicall3: call failed");
    }
}
