// SPDX-License-Identifier: Apache-2.0
// What tests put on their chain: tokens that anybody may mint and move, of each standard, and a payer of coins.
pragma solidity ^0.8.20;

contract Coin {
    event Transfer(address indexed from, address indexed to, uint256 value);

    string public name = "Lake Coin";
    string public symbol = "LAKE";
    uint8 public decimals = 6;
    mapping(address => uint256) public balanceOf;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function move(address from, address to, uint256 value) external {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function moveMany(address from, address to, uint256 value, uint256 times) external {
        for (uint256 i = 0; i < times; i++) {
            balanceOf[from] -= value;
            balanceOf[to] += value;
            emit Transfer(from, to, value);
        }
    }
}

// An early token: names of 32 bytes, and more decimals than any token has.
contract OldCoin {
    event Transfer(address indexed from, address indexed to, uint256 value);

    bytes32 public name = "Old Coin";
    bytes32 public symbol = "OLD";
    uint256 public decimals = 1000;

    function mint(address to, uint256 value) external {
        emit Transfer(address(0), to, value);
    }
}

contract Item {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    string public name = "Lake Item";
    string public symbol = "ITEM";

    function move(address from, address to, uint256 id) external {
        emit Transfer(from, to, id);
    }
}

contract Goods {
    event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value);
    event TransferBatch(
        address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values
    );

    function move(address from, address to, uint256 id, uint256 value) external {
        emit TransferSingle(msg.sender, from, to, id, value);
    }

    function moveBatch(address from, address to, uint256[] calldata ids, uint256[] calldata values) external {
        emit TransferBatch(msg.sender, from, to, ids, values);
    }
}

contract Payer {
    function pay(address payable to) external payable {
        (bool done,) = to.call{value: msg.value}("");
        require(done, "not paid");
    }

    // The payment within is undone, the transaction is not.
    function payInVain(address payable to) external payable {
        try this.payAndFail{value: msg.value}(to) {} catch {}
    }

    function payAndFail(address payable to) external payable {
        (bool done,) = to.call{value: msg.value}("");
        require(!done, "on purpose");
    }
}

// A token that misbehaves as its functions say. Its balances are mapped by a ratio, and each event is emitted or not.
contract OddCoin {
    event Transfer(address indexed from, address indexed to, uint256 value);

    string public name = "Odd Coin";
    string public symbol = "ODD";
    uint8 public decimals = 18;
    uint256 public ratio = 100;
    uint256 private total;
    mapping(address => uint256) private held;

    function balanceOf(address holder) external view returns (uint256) {
        return held[holder] * ratio / 100;
    }

    function totalSupply() external view returns (uint256) {
        return total * ratio / 100;
    }

    function mint(address to, uint256 value) external {
        held[to] += value;
        total += value;
        emit Transfer(address(0), to, value);
    }

    function move(address from, address to, uint256 value) external {
        held[from] -= value;
        held[to] += value;
        emit Transfer(from, to, value);
    }

    function rebase(uint256 newRatio) external {
        ratio = newRatio;
    }

    function silentMint(address to, uint256 value) external {
        held[to] += value;
        total += value;
    }

    function hiddenMint(address to, uint256 value) external {
        held[to] += value;
    }

    function silentBurn(address from, uint256 value) external {
        held[from] -= value;
        total -= value;
    }

    function silentMove(address from, address to, uint256 value) external {
        held[from] -= value;
        held[to] += value;
    }

    function fakeMove(address from, address to, uint256 value) external {
        emit Transfer(from, to, value);
    }

    function fakeMint(address to, uint256 value) external {
        emit Transfer(address(0), to, value);
    }

    function doubledMove(address from, address to, uint256 value) external {
        held[from] -= value;
        held[to] += value;
        emit Transfer(from, to, value);
        emit Transfer(from, to, value);
    }

    function feeMove(address from, address to, uint256 value) external {
        held[from] -= value;
        held[to] += value - value / 10;
        total -= value / 10;
        emit Transfer(from, to, value);
    }

    function feeOnTop(address from, address to, address collector, uint256 value) external {
        held[from] -= value + value / 10;
        held[to] += value;
        held[collector] += value / 10;
        emit Transfer(from, to, value);
    }

    function misdirectedMove(address from, address to, address real, uint256 value) external {
        held[from] -= value;
        held[real] += value;
        emit Transfer(from, to, value);
    }

    function mischargedMove(address from, address to, address real, uint256 value) external {
        held[real] -= value;
        held[to] += value;
        emit Transfer(from, to, value);
    }
}

// A coin whose events have no indexed fields.
contract PlainCoin {
    event Transfer(address from, address to, uint256 value);

    mapping(address => uint256) public balanceOf;
    uint256 public totalSupply;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        totalSupply += value;
        emit Transfer(address(0), to, value);
    }

    function move(address from, address to, uint256 value) external {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}

// A coin one of whose fields is not indexed where it should be.
contract HalfIndexedCoin {
    event Transfer(address indexed from, address to, uint256 value);

    mapping(address => uint256) public balanceOf;
    uint256 public totalSupply;

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        totalSupply += value;
        emit Transfer(address(0), to, value);
    }
}

// A wrapped coin. The first functions emit no Transfer, the others do, and stake is no mint at all.
contract WrappedCoin {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Deposit(address indexed to, uint256 value);
    event Withdrawal(address indexed from, uint256 value);

    mapping(address => uint256) public balanceOf;
    uint256 public totalSupply;

    function wrap(address to, uint256 value) external {
        balanceOf[to] += value;
        totalSupply += value;
        emit Deposit(to, value);
    }

    function unwrap(address from, uint256 value) external {
        balanceOf[from] -= value;
        totalSupply -= value;
        emit Withdrawal(from, value);
    }

    function wrapWithTransfer(address to, uint256 value) external {
        balanceOf[to] += value;
        totalSupply += value;
        emit Deposit(to, value);
        emit Transfer(address(0), to, value);
    }

    function unwrapWithTransfer(address from, uint256 value) external {
        balanceOf[from] -= value;
        totalSupply -= value;
        emit Transfer(from, address(0), value);
        emit Withdrawal(from, value);
    }

    function stake(address from, uint256 value) external {
        balanceOf[from] -= value;
        balanceOf[address(this)] += value;
        emit Transfer(from, address(this), value);
        emit Deposit(from, value);
    }

    function move(address from, address to, uint256 value) external {
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }
}

// A collection that can give an item to a holder without an event.
contract OddItem {
    event Transfer(address indexed from, address indexed to, uint256 indexed id);

    mapping(address => uint256) public balanceOf;
    uint256 public totalSupply;

    function mint(address to, uint256 id) external {
        balanceOf[to] += 1;
        totalSupply += 1;
        emit Transfer(address(0), to, id);
    }

    function silentMint(address to) external {
        balanceOf[to] += 1;
        totalSupply += 1;
    }
}

// A coin behind an upgrade: nothing answers before the first one, and the second one takes a fee.
contract UpgradedCoin {
    event Transfer(address indexed from, address indexed to, uint256 value);

    uint256 private version;
    uint256 private total;
    mapping(address => uint256) private held;

    modifier upgraded() {
        require(version > 0);
        _;
    }

    function upgrade(uint256 to) external {
        version = to;
    }

    function balanceOf(address holder) external view upgraded returns (uint256) {
        return held[holder];
    }

    function totalSupply() external view upgraded returns (uint256) {
        return total;
    }

    function mint(address to, uint256 value) external upgraded {
        held[to] += value;
        total += value;
        emit Transfer(address(0), to, value);
    }

    function move(address from, address to, uint256 value) external upgraded {
        uint256 fee = version > 1 ? value / 10 : 0;
        held[from] -= value;
        held[to] += value - fee;
        held[address(0xFEE)] += fee;
        emit Transfer(from, to, value);
    }
}
