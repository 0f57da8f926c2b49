// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

interface IERC20 {
    function balanceOf(address owner) external view returns (uint256);
}

/// @title Stake of compute workers, as `STAKE_SOURCE=evm` reads it: `stakeOf(bytes32 pubkey)`.
/// @notice Anyone may stake for a worker's ed25519 key, and takes back only what they staked themselves: nobody has to prove a key, so nobody can occupy
/// one. Nothing is ever slashed. What is unstaked counts no more at once and is paid out after the cooldown, so that one stake cannot stand for one key
/// after another faster than coordinators look.
/// @dev No owner, no upgrade, no pause. Tokens that take a fee of a transfer or change balances by themselves are not for this contract.
contract Stake {
    struct Exit {
        uint256 amount;
        uint256 availableAt;
    }

    IERC20 public immutable token;
    /// @notice Seconds between `unstake` and `withdraw`.
    uint256 public immutable cooldown;

    /// @notice What counts for a key, by everyone who staked for it, in the token's smallest units.
    mapping(bytes32 pubkey => uint256) public stakeOf;
    mapping(bytes32 pubkey => mapping(address staker => uint256)) public stakedBy;
    /// @notice What a staker waits for.
    mapping(address staker => Exit) public exitOf;

    event Staked(bytes32 indexed pubkey, address indexed staker, uint256 amount);
    event Unstaked(bytes32 indexed pubkey, address indexed staker, uint256 amount, uint256 availableAt);
    event Withdrawn(address indexed staker, uint256 amount);

    error NothingToMove();
    error MoreThanStaked(uint256 staked);
    error CoolingDown(uint256 availableAt);
    error TransferFailed();
    error CooldownTooLong();

    constructor(IERC20 token_, uint256 cooldown_) {
        // Beyond reach, or even beyond a uint256, nothing would ever come out again.
        if (cooldown_ > 365 days) revert CooldownTooLong();
        token = token_;
        cooldown = cooldown_;
    }

    /// @notice Stakes tokens of the caller, who has approved them, for a worker's key.
    function stake(bytes32 pubkey, uint256 amount) external {
        if (amount == 0) revert NothingToMove();
        stakeOf[pubkey] += amount;
        stakedBy[pubkey][msg.sender] += amount;
        uint256 before = token.balanceOf(address(this));
        _call(abi.encodeWithSignature("transferFrom(address,address,uint256)", msg.sender, address(this), amount));
        // What counts must be here; a call back into this contract shows here too.
        if (token.balanceOf(address(this)) != before + amount) revert TransferFailed();
        emit Staked(pubkey, msg.sender, amount);
    }

    /// @notice Ends part of the caller's own stake. All that the caller waits for can be withdrawn one cooldown after the last `unstake`.
    function unstake(bytes32 pubkey, uint256 amount) external {
        if (amount == 0) revert NothingToMove();
        uint256 staked = stakedBy[pubkey][msg.sender];
        if (amount > staked) revert MoreThanStaked(staked);
        stakedBy[pubkey][msg.sender] = staked - amount;
        stakeOf[pubkey] -= amount;
        Exit storage exit = exitOf[msg.sender];
        exit.amount += amount;
        exit.availableAt = block.timestamp + cooldown;
        emit Unstaked(pubkey, msg.sender, amount, exit.availableAt);
    }

    /// @notice Pays out what the caller has unstaked.
    function withdraw() external {
        Exit memory exit = exitOf[msg.sender];
        if (exit.amount == 0) revert NothingToMove();
        if (block.timestamp < exit.availableAt) revert CoolingDown(exit.availableAt);
        delete exitOf[msg.sender];
        _call(abi.encodeWithSignature("transfer(address,uint256)", msg.sender, exit.amount));
        emit Withdrawn(msg.sender, exit.amount);
    }

    /// @dev Some tokens return nothing; what returns false has failed.
    function _call(bytes memory data) private {
        (bool success, bytes memory answer) = address(token).call(data);
        if (!success || (answer.length != 0 && !abi.decode(answer, (bool)))) revert TransferFailed();
    }
}
